#include "weft/pipeline/parameters.h"

#include "weft/mesh/sharding.h"

namespace weft::pipeline {

ParameterList::ParameterList(const GptShape& model, const StagePlace& stage, int tensor_rank)
    : first_layer_(stage.first_layer) {
  if (stage.first_layer == 0) embedding_ = add(gpt_embedding(model), 0, 1);
  for (std::int64_t layer = stage.first_layer; layer < stage.end_layer; ++layer) {
    blocks_.push_back(size_);
    for (const BlockParam param : gpt_block_params())
      add(gpt_block_tensor(model, layer, param), tensor_rank, stage.tensor);
  }
  if (stage.end_layer < model.layers) return;
  final_norm_ = add(gpt_final_norm(model), 0, 1);
  head_ = add(gpt_head(model), 0, 1);
}

std::int64_t ParameterList::add(const GptTensor& tensor, int rank, int ranks) {
  HeldTensor held{tensor, whole(tensor.shape), size_};
  if (tensor.split >= 0) {
    const std::int64_t size = tensor.shape[at(tensor.split)];
    held.box.lo[at(tensor.split)] = cut(size, ranks, rank);
    held.box.hi[at(tensor.split)] = cut(size, ranks, rank + 1);
  }
  size_ += held.size();
  tensors_.push_back(std::move(held));
  return tensors_.back().begin;
}

void ParameterList::fill_first_values(const GptShape& model, std::uint64_t seed, std::span<float> values) const {
  for (const HeldTensor& held : tensors_) {
    const FirstValues first(model, held.tensor, seed);
    for_each_row(held, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) values[at(to + i)] = first.at(from + i);
    });
  }
}

}  // namespace weft::pipeline
