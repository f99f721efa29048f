#include "weft/llm/distill/activations.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

const StoredTensor& tensor_of(const TensorSource& tensors, const std::string& name) {
  const StoredTensor* tensor = tensors.find(name);
  if (tensor == nullptr) bad_input("{}: there is no tensor \"{}\"; give a whole model", tensors.where(), name);
  return *tensor;
}

}  // namespace

Activations::Activations(std::int64_t samples, std::int64_t values, int writers)
    : samples_(samples), values_(values), writers_(writers), data_(num(samples * values)) {}

void Activations::write(std::int64_t first, std::int64_t count, const float* values, int rank) {
  const std::int64_t all = count * values_, writer = writers_ == 1 ? 0 : rank;
  const std::int64_t begin = all * writer / writers_, end = all * (writer + 1) / writers_;
  std::copy(values + begin, values + end, data_.begin() + first * values_ + begin);
}

void embed(const ModelConfig& config, const TensorSource& tensors, std::span<const int> sample, float* out) {
  const StoredTensor& table = tensor_of(tensors, embedding_name(config));
  const std::string positions = positions_name(config);
  std::vector<float> row(num(config.hidden));
  for (std::size_t i = 0; i < sample.size(); ++i, out += config.hidden) {
    if (sample[i] < 0 || sample[i] >= config.vocab)
      bad_input("token {} is outside the model's vocabulary of {}; use the model's own tokenizer", sample[i],
                config.vocab);
    widen(table, sample[i] * config.hidden, config.hidden, out);
    if (positions.empty()) continue;
    widen(tensor_of(tensors, positions),
          (static_cast<std::int64_t>(i) + config.design.learned_positions) * config.hidden, config.hidden, row.data());
    for (std::size_t j = 0; j < row.size(); ++j) out[j] += row[j];
  }
}

}  // namespace weft
