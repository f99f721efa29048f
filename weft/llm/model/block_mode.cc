#include "weft/llm/model/block_mode.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using Named = std::pair<BlockMode, std::string_view>;
constexpr std::array<Named, 6> kModes = {{{{false, BlockWire::f32}, "sync"},
                                          {{false, BlockWire::bf16}, "bf16"},
                                          {{false, BlockWire::int8}, "int8"},
                                          {{true, BlockWire::f32}, "drop"},
                                          {{true, BlockWire::bf16}, "drop+bf16"},
                                          {{true, BlockWire::int8}, "drop+int8"}}};

}  // namespace

std::string_view to_string(BlockMode mode) {
  for (const auto& [candidate, name] : kModes)
    if (candidate == mode) return name;
  return "unknown";
}

BlockMode parse_block_mode(std::string_view name) {
  std::string choices;
  for (const auto& [mode, candidate] : kModes) {
    if (candidate == name) return mode;
    choices += (choices.empty() ? "" : ", ") + std::string(candidate);
  }
  bad_input("unknown mode \"{}\" of a block; use one of {}", name, choices);
}

int num_dropped(std::span<const BlockMode> modes) {
  return static_cast<int>(std::count_if(modes.begin(), modes.end(), [](BlockMode m) { return m.drop; }));
}

std::string summary(std::span<const BlockMode> modes) {
  std::array<std::pair<int, std::string_view>, kModes.size()> counts{};
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    counts[i].second = kModes[i].second;
    counts[i].first = static_cast<int>(std::count(modes.begin(), modes.end(), kModes[i].first));
  }
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [count, name] : counts)
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  return text;
}

}  // namespace weft
