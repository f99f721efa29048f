#include "weft/llm/distill/choice.h"

#include <algorithm>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/sha256.h"
#include "weft/llm/distill/block_weights.h"
#include "weft/llm/distill/state.h"

namespace weft {
namespace {

// The class of a block by the file's sensitivities; nothing where there are none.
std::optional<BlockClass> known_class(const DistillChoiceOptions& options, int block, const SpdFile* spd) {
  if (spd == nullptr || spd->sensitivity.empty()) return std::nullopt;
  return class_of(spd->sensitivity[at(block)], options.thresholds);
}

HeadGrouping grouping_of(const DistillChoiceOptions& options, const std::vector<int>& listed, int block,
                         const SpdFile* spd) {
  if (options.head_groups != "auto")
    return std::binary_search(listed.begin(), listed.end(), block) ? HeadGrouping::yes : HeadGrouping::no;
  const auto found = known_class(options, block, spd);
  if (!found) return HeadGrouping::where_better;
  return found == BlockClass::esb ? HeadGrouping::yes : HeadGrouping::no;
}

}  // namespace

DistillChoice choose_blocks(const DistillChoiceOptions& options, std::int64_t num_blocks, const SpdFile* spd) {
  DistillChoice choice;
  choice.modes = spd != nullptr ? spd->blocks : all_blocks(num_blocks, {});
  choice.tasks.resize(choice.modes.size());
  const bool listed = !options.blocks.empty();
  std::vector<int> grouped;
  if (options.head_groups != "auto") grouped = parse_blocks(options.head_groups, num_blocks, "--head-groups");
  if (listed || spd == nullptr)
    for (const int block : parse_blocks(listed ? options.blocks : "all", num_blocks, "--blocks"))
      choice.modes[at(block)].drop = choice.tasks[at(block)].repair = true;
  for (int block = 0; block < num_blocks; ++block) {
    BlockTask& task = choice.tasks[at(block)];
    task.drop = choice.modes[at(block)].drop;
    if (!listed && spd != nullptr) task.repair = task.drop && known_class(options, block, spd) != BlockClass::isb;
    if (task.repair) task.grouping = grouping_of(options, grouped, block, spd);
  }
  if (std::none_of(choice.tasks.begin(), choice.tasks.end(), [](const BlockTask& task) { return task.repair; }))
    bad_input("{} drops no block that needs repair; name some with --blocks", spd != nullptr ? spd->path : "the list");
  return choice;
}

void write_distilled(const std::string& folder, const DistillResult& result) {
  const std::filesystem::path path(folder);
  std::vector<std::vector<std::byte>> storage;
  std::vector<StoredTensor> tensors;
  for (const DistilledBlock& block : result.blocks)
    for (StoredTensor& tensor : name_block(result.job.model.config, block.block, block.weights, result.dtype, &storage))
      tensors.push_back(std::move(tensor));
  const std::string weights = (path / "repaired.safetensors").string();
  const std::string settings = settings_of(result.job, result.ranks);
  write_safetensors(weights, tensors, {{"settings", settings}});
  SpdFile spd{.model = result.job.about, .tp = result.ranks, .blocks = result.choice.modes};
  spd.sensitivity = result.sensitivity;
  spd.weights = "repaired.safetensors";
  spd.weights_sha256 = file_sha256(weights);
  spd.why = "weft spd distill: " + settings;
  save_spd(spd, (path / "repaired.spd").string());
}

}  // namespace weft
