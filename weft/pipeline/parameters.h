// One rank's weights: the tensors of its stage, or its share of each, one after the other in a flat array, so that the
// optimiser, sums over ranks and a clip see one array. What each is called, and which box of the whole tensor lies
// here, is data: first values, checkpoints and gradients are read from it.
#pragma once

#include <span>
#include <vector>

#include "weft/mesh/box.h"
#include "weft/nn/gpt.h"
#include "weft/pipeline/places.h"

namespace weft::pipeline {

struct HeldTensor {
  GptTensor tensor;
  Box box;                 // of the whole, that lies here
  std::int64_t begin = 0;  // in the flat array, row-major
  std::int64_t size() const { return box.volume(); }
};

class ParameterList {
 public:
  ParameterList(const GptShape& model, const StagePlace& stage, int tensor_rank);

  const std::vector<HeldTensor>& tensors() const { return tensors_; }
  std::int64_t size() const { return size_; }
  std::int64_t embedding() const { return embedding_; }    // where it begins; -1: not on this stage
  std::int64_t final_norm() const { return final_norm_; }  // likewise, and the head
  std::int64_t head() const { return head_; }
  std::int64_t block(std::int64_t layer) const { return blocks_[at(layer - first_layer_)]; }

  void fill_first_values(const GptShape& model, std::uint64_t seed, std::span<float> values) const;

 private:
  std::int64_t add(const GptTensor& tensor, int rank, int ranks);

  std::vector<HeldTensor> tensors_;
  std::vector<std::int64_t> blocks_;
  std::int64_t first_layer_, size_ = 0, embedding_ = -1, final_norm_ = -1, head_ = -1;
};

// Rows of a box of at most two dimensions: calls each(index of the first element in the whole, in the flat array,
// count).
template <typename Each>
void for_each_row(const HeldTensor& held, const Each& each) {
  const bool flat = held.box.dims == 1;
  const std::int64_t cols = flat ? held.box.size(0) : held.box.size(1), width = flat ? 0 : held.tensor.shape[1];
  const std::int64_t rows = flat ? 1 : held.box.size(0);
  for (std::int64_t i = 0; i < rows; ++i)
    each(flat ? held.box.lo[0] : (held.box.lo[0] + i) * width + held.box.lo[1], held.begin + i * cols, cols);
}

}  // namespace weft::pipeline
