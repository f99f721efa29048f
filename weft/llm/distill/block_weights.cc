#include "weft/llm/distill/block_weights.h"

#include <algorithm>
#include <cstring>

#include "weft/base/dtype.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

struct NamedParam {
  BlockParam param;
  BlockPart part;
  bool bias;
};
constexpr NamedParam kParamNames[] = {
    {BlockParam::norm1_weight, BlockPart::norm1, false},
    {BlockParam::norm1_bias, BlockPart::norm1, true},
    {BlockParam::norm2_weight, BlockPart::norm2, false},
    {BlockParam::norm2_bias, BlockPart::norm2, true},
    {BlockParam::o_bias, BlockPart::o, true},
    {BlockParam::down_bias, BlockPart::down, true},
    {BlockParam::k_weight, BlockPart::k, false},
    {BlockParam::k_bias, BlockPart::k, true},
    {BlockParam::v_weight, BlockPart::v, false},
    {BlockParam::v_bias, BlockPart::v, true},
    {BlockParam::q_weight, BlockPart::q, false},
    {BlockParam::q_bias, BlockPart::q, true},
    {BlockParam::o_weight, BlockPart::o, false},
    {BlockParam::gate_weight, BlockPart::gate, false},
    {BlockParam::gate_bias, BlockPart::gate, true},
    {BlockParam::up_weight, BlockPart::up, false},
    {BlockParam::up_bias, BlockPart::up, true},
    {BlockParam::down_weight, BlockPart::down, false},
};

BlockLayout whole_layout(const ModelConfig& config) { return BlockLayout(block_shape(config, shard_of(config, 0, 1))); }

IndexRange times(IndexRange part, std::int64_t factor) { return {part.begin * factor, part.end * factor}; }

// Which rows and columns of a whole parameter a rank has.
struct Cut {
  IndexRange rows, cols;
};
Cut cut_of(const ModelConfig& config, const ModelShard& shard, BlockParam param, const BlockLayout::Place& whole) {
  const IndexRange all_rows{0, whole.rows}, all_cols{0, whole.cols};
  switch (param) {
    case BlockParam::q_weight:
    case BlockParam::q_bias:
      return {times(shard.heads, config.head_dim), all_cols};
    case BlockParam::k_weight:
    case BlockParam::k_bias:
    case BlockParam::v_weight:
    case BlockParam::v_bias:
      return {times(shard.kv_heads, config.head_dim), all_cols};
    case BlockParam::gate_weight:
    case BlockParam::gate_bias:
    case BlockParam::up_weight:
    case BlockParam::up_bias:
      return {shard.mlp, all_cols};
    case BlockParam::o_weight:
      return {all_rows, times(shard.heads, config.head_dim)};
    case BlockParam::down_weight:
      return {all_rows, shard.mlp};
    default:
      return {all_rows, all_cols};
  }
}

// Calls move(param, at in the shard, at in the whole, columns) for every row of every parameter.
template <typename Move>
void for_each_row(const ModelConfig& config, const ModelShard& shard, const Move& move) {
  const BlockLayout whole = whole_layout(config), part(block_shape(config, shard));
  for (int i = 0; i < kBlockParams; ++i) {
    const auto param = static_cast<BlockParam>(i);
    if (whole[param].size() == 0) continue;
    const Cut cut = cut_of(config, shard, param, whole[param]);
    for (std::int64_t row = 0; row < cut.rows.size(); ++row)
      move(param, part[param].begin + row * cut.cols.size(),
           whole[param].begin + (cut.rows.begin + row) * whole[param].cols + cut.cols.begin, cut.cols.size());
  }
}

bool is_of_kv_heads(BlockParam param) {
  return param == BlockParam::k_weight || param == BlockParam::k_bias || param == BlockParam::v_weight ||
         param == BlockParam::v_bias;
}

void read_tensor(const TensorSource& tensors, const std::string& name, const std::vector<std::int64_t>& shape,
                 std::int64_t count, float* to) {
  const StoredTensor* tensor = tensors.find(name);
  if (tensor == nullptr) bad_input("{}: there is no tensor \"{}\"; give a whole model", tensors.where(), name);
  if (tensor->shape != shape)
    bad_input("{}: tensor \"{}\" has another shape than config.json says; give a model and its own config.json",
              tensors.where(), name);
  widen(*tensor, 0, count, to);
}

// Blocks are trained by weft/nn, and named tensor by tensor.
void refuse_untrainable(const ModelConfig& config) {
  std::string why = why_not_trainable(config.design);
  const RotaryDesign* rotary = config.design.rotary_of(0);
  if (why.empty() && rotary != nullptr && rotary->columns != config.head_dim) why = "heads are turned in part";
  if (why.empty() && rotary != nullptr && rotary->kind == RotaryKind::longrope)
    why = "its rotary positions depend on the length of texts";
  for (const BlockPart part : {BlockPart::q, BlockPart::up})
    if (why.empty() && !place_of(config, 0, part).alone(shape_of(config, part)[0]))
      why = "its files keep several parts of a block in one tensor";
  if (!why.empty()) bad_input("{}: its blocks cannot be distilled: {}", config.file, why);
}

// (out, in) of a weight, (out) of a bias or a norm.
std::vector<std::int64_t> stored_shape(const ModelConfig& config, const NamedParam& named) {
  std::vector<std::int64_t> shape = shape_of(config, named.part);
  if (named.bias) shape.resize(1);
  return shape;
}

}  // namespace

BlockShape block_shape(const ModelConfig& config, const ModelShard& shard, std::int64_t sequence,
                       std::int64_t sequences) {
  refuse_untrainable(config);
  BlockShape shape{.hidden = config.hidden,
                   .mlp = shard.mlp.size(),
                   .attention = {.sequence = sequence,
                                 .sequences = sequences,
                                 .head_dim = config.head_dim,
                                 .kv_heads = shard.kv_heads.size(),
                                 .window = config.design.block(0).window},
                   .eps = static_cast<float>(config.norm_eps),
                   .design = config.design};
  for (std::int64_t head = shard.heads.begin; head < shard.heads.end; ++head)
    shape.attention.kv_of.push_back(static_cast<std::int32_t>(head / config.heads_per_kv() - shard.kv_heads.begin));
  return shape;
}

std::vector<float> read_block(const ModelConfig& config, const TensorSource& tensors, std::int64_t block) {
  const BlockLayout layout = whole_layout(config);
  std::vector<float> whole(num(layout.size()));
  for (const NamedParam& named : kParamNames) {
    const BlockLayout::Place& place = layout[named.param];
    if (place.size() == 0) continue;
    const std::string name = named.bias ? bias_name(config, block, named.part) : weight_name(config, block, named.part);
    read_tensor(tensors, name, stored_shape(config, named), place.size(), whole.data() + place.begin);
  }
  return whole;
}

std::vector<float> take_shard(const ModelConfig& config, const ModelShard& shard, const std::vector<float>& whole) {
  std::vector<float> part(num(BlockLayout(block_shape(config, shard)).size()));
  for_each_row(config, shard, [&](BlockParam, std::int64_t to, std::int64_t from, std::int64_t cols) {
    std::copy_n(whole.begin() + from, cols, part.begin() + to);
  });
  return part;
}

std::vector<bool> held_first(const ModelConfig& config, const ModelShard& shard) {
  const BlockLayout layout(block_shape(config, shard));
  std::vector<bool> first(num(layout.size()), true);
  std::fill_n(first.begin(), layout.replicated(), shard.rank == 0);
  // Ranks hold heads in order, so a key/value head that an earlier rank holds is one that the last rank with heads
  // does.
  std::int64_t begun = 0;
  for (int rank = 0; rank < shard.ranks && rank < shard.rank; ++rank)
    begun = std::max(begun, shard_of(config, rank, shard.ranks).kv_heads.end);
  const std::int64_t shared = std::clamp<std::int64_t>(begun - shard.kv_heads.begin, 0, shard.kv_heads.size());
  for (int i = 0; i < kBlockParams; ++i) {
    const auto param = static_cast<BlockParam>(i);
    if (is_of_kv_heads(param) && layout[param].size() > 0)
      std::fill_n(first.begin() + layout[param].begin, shared * config.head_dim * layout[param].cols, false);
  }
  return first;
}

void put_shard(const ModelConfig& config, const ModelShard& shard, const std::vector<float>& part,
               std::vector<float>* whole) {
  const std::vector<bool> first = held_first(config, shard);
  for_each_row(config, shard, [&](BlockParam, std::int64_t from, std::int64_t to, std::int64_t cols) {
    if (cols > 0 && first[at(from)]) std::copy_n(part.begin() + from, cols, whole->begin() + to);
  });
}

std::vector<StoredTensor> name_block(const ModelConfig& config, std::int64_t block, const std::vector<float>& whole,
                                     StoredDtype dtype, std::vector<std::vector<std::byte>>* storage) {
  const BlockLayout layout = whole_layout(config);
  std::vector<StoredTensor> tensors;
  for (const NamedParam& named : kParamNames) {
    const BlockLayout::Place& place = layout[named.param];
    if (place.size() == 0) continue;
    std::vector<std::byte>& bytes = storage->emplace_back(num(place.size()) * size_of(dtype));
    if (dtype == StoredDtype::f32) std::memcpy(bytes.data(), whole.data() + place.begin, bytes.size());
    for (std::int64_t i = 0; dtype == StoredDtype::bf16 && i < place.size(); ++i) {
      const bf16 value = to_bf16(whole[at(place.begin + i)]);
      std::memcpy(bytes.data() + num(i) * sizeof value, &value, sizeof value);
    }
    const std::string name = named.bias ? bias_name(config, block, named.part) : weight_name(config, block, named.part);
    tensors.push_back({name, dtype, stored_shape(config, named), bytes.data(), bytes.size()});
  }
  return tensors;
}

}  // namespace weft
