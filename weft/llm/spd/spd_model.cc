#include "weft/llm/spd/spd_model.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"
#include "weft/llm/spd/memory_source.h"

namespace weft {
namespace {

constexpr BlockPart kBiased[] = {BlockPart::q, BlockPart::k, BlockPart::v, BlockPart::o};

// Repaired weights may bring biases that the model has not (centre.h), where values have a tensor of their own.
ModelConfig with_bias_names(ModelConfig config) {
  if (place_of(config, 0, BlockPart::v).alone(config.kv_heads * config.head_dim))
    config.design.qkv_bias = config.design.output_bias = true;
  return config;
}

std::vector<std::string> names_of_block(const ModelConfig& model, std::int64_t block) {
  const ModelConfig config = with_bias_names(model);
  std::vector<std::string> names;
  for (const BlockPart part : block_parts(config)) {
    names.push_back(weight_name(config, block, part));
    if (has_bias(config, part)) names.push_back(bias_name(config, block, part));
  }
  return names;
}

// "rank3.NAME" is rank 3's own tensor of that name.
std::string_view without_rank(std::string_view name) {
  if (!name.starts_with("rank")) return name;
  const std::size_t dot = name.find('.');
  const bool digits = dot != std::string_view::npos && dot > 4 &&
                      std::all_of(name.begin() + 4, name.begin() + dot, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name.substr(dot + 1) : name;
}

// The tensors of some blocks of another source; the rest of it is not there.
class SomeBlocks : public TensorSource {
 public:
  SomeBlocks(std::shared_ptr<const TensorSource> all, std::set<std::string, std::less<>> names)
      : all_(std::move(all)), names_(std::move(names)) {}
  const StoredTensor* find(std::string_view name) const override {
    return names_.contains(without_rank(name)) ? all_->find(name) : nullptr;
  }
  std::string where() const override { return all_->where(); }

 private:
  std::shared_ptr<const TensorSource> all_;
  std::set<std::string, std::less<>> names_;
};

// One source behind another.
class Layered : public TensorSource {
 public:
  Layered(std::shared_ptr<const TensorSource> first, std::shared_ptr<const TensorSource> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  const StoredTensor* find(std::string_view name) const override {
    const StoredTensor* found = first_->find(name);
    return found != nullptr ? found : second_->find(name);
  }
  std::string where() const override { return first_->where(); }

 private:
  std::shared_ptr<const TensorSource> first_, second_;
};

// The weights of an spd file for some blocks; null where the file has none.
std::shared_ptr<const TensorSource> repaired_source(const SpdFile& spd, const ModelConfig& config,
                                                    const std::vector<bool>& used) {
  if (spd.weights.empty()) return nullptr;
  std::set<std::string, std::less<>> names;
  for (std::int64_t block = 0; block < config.blocks; ++block)
    if (used[at(block)])
      for (std::string& name : names_of_block(config, block)) names.insert(std::move(name));
  return std::make_shared<SomeBlocks>(file_source(spd.weights_path()), std::move(names));
}

// Calls `visit` with the name and the size of every bias that the model has not and could be given.
void for_each_new_bias(const ModelConfig& model, const std::function<void(const std::string&, std::int64_t)>& visit) {
  const ModelConfig config = with_bias_names(model);
  for (std::int64_t block = 0; block < config.blocks; ++block)
    for (const BlockPart part : kBiased)
      if (has_bias(config, part) && !has_bias(model, part))
        visit(bias_name(config, block, part), shape_of(config, part)[0]);
}

}  // namespace

ModelSource with_all_biases(ModelSource source) {
  bool brings = false;
  auto zeros = std::make_shared<MemorySource>("biases of nothing");
  for_each_new_bias(source.config, [&](const std::string& name, std::int64_t size) {
    brings = brings || (source.repaired != nullptr && source.repaired->find(name) != nullptr);
    zeros->put(name, std::vector<float>(num(size)));
  });
  if (!brings) return source;
  source.config = with_bias_names(std::move(source.config));
  source.tensors = std::make_shared<Layered>(source.tensors, zeros);
  return source;
}

ModelSource repaired_model(const ModelSource& source, const SpdFile& spd, const std::vector<bool>& used) {
  ModelSource out = source;
  out.repaired = repaired_source(spd, source.config, used);
  return with_all_biases(std::move(out));
}

std::vector<bool> repaired_blocks(const SpdFile& spd, const ModelConfig& config) {
  std::vector<bool> repaired(num(config.blocks), false);
  if (spd.weights.empty()) return repaired;
  const TensorFile file = TensorFile::open(spd.weights_path());
  std::set<std::string, std::less<>> names;
  for (const StoredTensor& tensor : file.tensors()) names.insert(std::string(without_rank(tensor.name)));
  std::size_t known = 0;
  for (std::int64_t block = 0; block < config.blocks; ++block)
    for (const std::string& name : names_of_block(config, block)) {
      if (!names.contains(name)) continue;
      repaired[at(block)] = true;
      ++known;
    }
  if (known < names.size())
    bad_input(
        "{}: {} of its {} tensors belong to no block of the model; make it again with `weft spd distill` or `weft spd "
        "centre`",
        spd.weights_path(), names.size() - known, names.size());
  return repaired;
}

ModelSource open_model(const std::string& folder, const SpdFile& spd, int ranks) {
  const ModelSource source = open_model(folder);
  check_spd(spd, {folder, model_hash(folder), ranks, static_cast<int>(source.config.blocks)});
  std::vector<bool> dropped;
  for (const BlockMode mode : spd.blocks) dropped.push_back(mode.drop);
  repaired_blocks(spd, source.config);  // refuses tensors that are no block's
  return repaired_model(source, spd, dropped);
}

}  // namespace weft
