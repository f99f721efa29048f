// Hidden states of all calibration samples at one depth of the model, the same on every rank. Ranks that are threads
// share one array, of which each writes its part; ranks with memory of their own have one each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/llm/model/model.h"

namespace weft {

class Activations {
 public:
  // `writers` threads call write() for every sample, and each stores its share of it. Readers must wait for all of them
  // (World::barrier).
  Activations(std::int64_t samples, std::int64_t values, int writers = 1);

  std::int64_t samples() const { return samples_; }
  const float* sample(std::int64_t index) const { return data_.data() + index * values_; }
  // `count` samples from `first` on, by writer `rank` of those that share the array.
  void write(std::int64_t first, std::int64_t count, const float* values, int rank);

 private:
  std::int64_t samples_, values_;
  int writers_;
  std::vector<float> data_;
};

// What enters the first block: embeddings of the tokens, learned positions added where the model has them. `tokens` are
// those of one sample.
void embed(const ModelConfig& config, const TensorSource& tensors, std::span<const int> sample, float* out);

}  // namespace weft
