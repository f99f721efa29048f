#include "weft/llm/model/block_mode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

using Named = std::pair<BlockMode, std::string_view>;
constexpr std::array<Named, 6> kModes = {{{{false, BlockWire::f32}, "sync"},
                                          {{false, BlockWire::bf16}, "bf16"},
                                          {{false, BlockWire::int8}, "int8"},
                                          {{true, BlockWire::f32}, "drop"},
                                          {{true, BlockWire::bf16}, "drop+bf16"},
                                          {{true, BlockWire::int8}, "drop+int8"}}};

// A whole number from 0 to `most`; nothing where the text is none.
std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > most) return std::nullopt;
  return value;
}

// The parts between commas, without spaces; at least one.
std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',')
      parts.emplace_back();
    else if (c != ' ')
      parts.back() += c;
  }
  return parts;
}

}  // namespace

Modes all_blocks(std::int64_t blocks, BlockMode mode) { return Modes(num(blocks), mode); }

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

Modes parse_modes(std::string_view list) {
  Modes modes;
  for (const std::string& name : parts_of(list)) {
    const BlockMode mode = parse_block_mode(name);
    if (mode != BlockMode{} && std::find(modes.begin(), modes.end(), mode) == modes.end()) modes.push_back(mode);
  }
  return modes;
}

std::vector<int> parse_blocks(std::string_view list, std::int64_t blocks, std::string_view where) {
  if (list == "none") return {};
  std::vector<bool> listed(num(blocks), list == "all");
  const auto block = [&](std::string_view text) {
    const auto value = parse_number(text, blocks - 1);
    if (!value)
      bad_input("{}: \"{}\" is no block; use numbers from 0 to {} and ranges, as 0,3-5, or all", where, text,
                blocks - 1);
    return *value;
  };
  for (const std::string& part : list == "all" ? std::vector<std::string>{} : parts_of(list)) {
    const std::size_t dash = part.find('-');
    const std::int64_t first = block(std::string_view(part).substr(0, dash));
    const std::int64_t last = dash == std::string::npos ? first : block(std::string_view(part).substr(dash + 1));
    if (last < first) bad_input("{}: \"{}\" runs backwards; turn it round", where, part);
    std::fill(listed.begin() + first, listed.begin() + last + 1, true);
  }
  std::vector<int> out;
  for (int b = 0; b < blocks; ++b)
    if (listed[at(b)]) out.push_back(b);
  return out;
}

std::vector<bool> parse_dropped(std::string_view list, std::int64_t blocks, std::string_view where) {
  std::vector<bool> out(num(blocks), false);
  if (!list.ends_with('%')) {
    for (const int block : parse_blocks(list, blocks, where)) out[at(block)] = true;
    return out;
  }
  const auto percent = parse_number(list.substr(0, list.size() - 1), 100);
  if (!percent) bad_input("{}: \"{}\" is no share of the blocks; use 0% to 100%", where, list);
  std::fill(out.end() - (blocks * *percent + 50) / 100, out.end(), true);
  return out;
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
