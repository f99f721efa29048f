#include "weft/llm/spd/spd_model.h"

#include <algorithm>
#include <set>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

std::vector<std::string> names_of_block(const ModelConfig& config, std::int64_t block) {
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

}  // namespace

std::shared_ptr<const TensorSource> repaired_source(const SpdFile& spd, const ModelConfig& config,
                                                    const std::vector<bool>& used) {
  if (spd.weights.empty()) return nullptr;
  std::set<std::string, std::less<>> names;
  for (std::int64_t block = 0; block < config.blocks; ++block)
    if (used[at(block)])
      for (std::string& name : names_of_block(config, block)) names.insert(std::move(name));
  return std::make_shared<SomeBlocks>(file_source(spd.weights_path()), std::move(names));
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
    bad_input("{}: {} of its {} tensors belong to no block of the model; make it again with `weft spd distill`",
              spd.weights_path(), names.size() - known, names.size());
  return repaired;
}

ModelSource open_model(const std::string& folder, const SpdFile& spd, int ranks) {
  ModelSource source = open_model(folder);
  check_spd(spd, {folder, model_hash(folder), ranks, static_cast<int>(source.config.blocks)});
  std::vector<bool> dropped;
  for (const BlockMode mode : spd.blocks) dropped.push_back(mode.drop);
  repaired_blocks(spd, source.config);  // refuses tensors that are no block's
  source.repaired = repaired_source(spd, source.config, dropped);
  return source;
}

}  // namespace weft
