// Which blocks `weft spd distill` drops, repairs and groups, and what it says of them.
#include <algorithm>
#include <charconv>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/spd/analyze.h"

#include "cli/spd/distill.h"

namespace weft::cli {
namespace {

int parse_number(const std::string& flag, std::string_view text, int num_blocks) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value >= num_blocks)
    bad_input("{}: \"{}\" is no block; use numbers from 0 to {} and ranges, as 0,3-5, or all", flag, text,
              num_blocks - 1);
  return value;
}

HeadGrouping grouping_of(const DistillFlags& flags, int block, int num_blocks, const SpdFile* spd) {
  if (flags.head_groups == "none") return HeadGrouping::no;
  if (flags.head_groups == "all") return HeadGrouping::yes;
  if (flags.head_groups != "auto") {
    const std::vector<int> listed = parse_blocks("--head-groups", flags.head_groups, num_blocks);
    return std::binary_search(listed.begin(), listed.end(), block) ? HeadGrouping::yes : HeadGrouping::no;
  }
  if (spd == nullptr || spd->sensitivity.empty()) return HeadGrouping::where_better;
  const double s = spd->sensitivity[static_cast<std::size_t>(block)];
  return class_of(s, {flags.tau1, flags.tau2}) == BlockClass::esb ? HeadGrouping::yes : HeadGrouping::no;
}

bool worth_repairing(const DistillFlags& flags, int block, const SpdFile* spd) {
  if (spd == nullptr || spd->sensitivity.empty()) return true;
  return class_of(spd->sensitivity[static_cast<std::size_t>(block)], {flags.tau1, flags.tau2}) != BlockClass::isb;
}

}  // namespace

std::vector<int> parse_blocks(const std::string& flag, const std::string& text, int num_blocks) {
  std::vector<int> out;
  if (text == "all") {
    for (int block = 0; block < num_blocks; ++block) out.push_back(block);
    return out;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, comma - at);
    const std::size_t dash = item.find('-');
    const int first = parse_number(flag, item.substr(0, dash), num_blocks);
    const int last = dash == std::string_view::npos ? first : parse_number(flag, item.substr(dash + 1), num_blocks);
    if (last < first) bad_input("{}: \"{}\" runs backwards; write the smaller number first", flag, item);
    for (int block = first; block <= last; ++block) out.push_back(block);
    at = comma + 1;
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

DistillChoice choose_blocks(const DistillFlags& flags, int num_blocks, const SpdFile* spd) {
  DistillChoice choice;
  choice.modes = spd != nullptr ? spd->blocks : std::vector<BlockMode>(num(num_blocks));
  choice.tasks.resize(choice.modes.size());
  const bool listed = !flags.blocks.empty();
  if (listed || spd == nullptr)
    for (const int block : parse_blocks("--blocks", listed ? flags.blocks : "all", num_blocks))
      choice.modes[static_cast<std::size_t>(block)].drop = choice.tasks[static_cast<std::size_t>(block)].repair = true;
  for (int block = 0; block < num_blocks; ++block) {
    BlockTask& task = choice.tasks[static_cast<std::size_t>(block)];
    task.drop = choice.modes[static_cast<std::size_t>(block)].drop;
    if (!listed && spd != nullptr) task.repair = task.drop && worth_repairing(flags, block, spd);
    if (task.repair) task.grouping = grouping_of(flags, block, num_blocks, spd);
  }
  if (std::none_of(choice.tasks.begin(), choice.tasks.end(), [](const BlockTask& task) { return task.repair; }))
    bad_input("{} drops no block that needs repair; name some with --blocks", flags.spd);
  return choice;
}

std::string distill_line(const DistilledBlock& b) {
  const double kept = b.loss_before > 0 ? b.loss_after / b.loss_before : 1;
  return fmt::format("block {:3}  loss {:.3e} -> {:.3e}  ({:4.1f} % left){}{}\n", b.block, b.loss_before, b.loss_after,
                     100 * kept, b.grouped ? "  heads grouped" : "", b.resumed ? "  done before" : "");
}

std::string distill_text(const DistillFlags& flags, const std::vector<DistilledBlock>& blocks, double seconds) {
  const std::string out = fmt::format("{} block{} repaired for {} ranks in {:.0f} s: {}/repaired.spd\n", blocks.size(),
                                      blocks.size() == 1 ? "" : "s", flags.tp, seconds, flags.out);
  return out + fmt::format("Try next: weft eval --model {} --ranks {} --spd {}/repaired.spd --text FILE\n", flags.model,
                           flags.tp, flags.out);
}

std::string distill_json(const DistillFlags& flags, const std::vector<DistilledBlock>& blocks, double seconds) {
  nlohmann::ordered_json out{{"model", flags.model},
                             {"tp", flags.tp},
                             {"spd", flags.out + "/repaired.spd"},
                             {"inputs", flags.inputs},
                             {"epochs", flags.options.epochs},
                             {"lr", flags.options.lr},
                             {"batch", flags.options.batch},
                             {"samples", flags.samples},
                             {"seed", flags.options.seed},
                             {"dtype", flags.dtype},
                             {"seconds", seconds}};
  for (const DistilledBlock& b : blocks)
    out["blocks"].push_back({{"index", b.block},
                             {"loss_before", b.loss_before},
                             {"loss_after", b.loss_after},
                             {"grouped", b.grouped},
                             {"resumed", b.resumed},
                             {"seconds", b.seconds}});
  return out.dump() + "\n";
}

}  // namespace weft::cli
