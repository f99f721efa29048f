#include "weft/study/reshard/request_words.h"

#include <charconv>

#include "weft/base/error.h"
#include "weft/reshard/manifest_words.h"

namespace weft {
namespace {

std::int64_t parse_whole(std::string_view text, std::string_view flag) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size())
    bad_input("{} has \"{}\", which is no whole number; write digits, and commas between numbers", flag, text);
  return value;
}

}  // namespace

Shape parse_shape(std::string_view text) {
  Shape shape;
  std::int64_t elements = 1;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::int64_t size = parse_whole(rest.substr(0, comma), "--shape");
    if (size < 1) bad_input("--shape {} has a size of {}; every size is 1 or more", text, size);
    if (size > kMostElements / elements) bad_input("--shape {} has more than 2^50 elements; use smaller sizes", text);
    elements *= size;
    shape.push_back(size);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (shape.size() > kMaxDims) bad_input("--shape {} has {} dimensions; use at most {}", text, shape.size(), kMaxDims);
  return shape;
}

Mesh parse_mesh(const std::string& text, std::string_view flag) {
  try {
    const std::size_t at = text.find('@');
    const std::vector<Axis> axes = parse_axes(std::string_view(text).substr(0, at));
    const int size = Mesh(axes).size();
    std::int64_t hosts = axes.size() > 1 ? axes[0].size : 1;
    if (at != std::string::npos) hosts = parse_whole(std::string_view(text).substr(at + 1), flag);
    if (hosts < 1 || size % hosts != 0)
      bad_input("{} ranks do not fill {} hosts alike; use a number of hosts that divides {}", size, hosts, size);
    return Mesh(axes, hosts_in_blocks(size, size / static_cast<int>(hosts)));
  } catch (const Error& error) {
    bad_input("{} {}: {}", flag, text, error.what());
  }
}

std::vector<int> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-', 1);
    const std::int64_t first = parse_whole(part.substr(0, dash), "--dst-ranks");
    const std::int64_t last =
        dash == std::string_view::npos ? first : parse_whole(part.substr(dash + 1), "--dst-ranks");
    if (first < 0 || last < first || last >= kMaxRanks)
      bad_input("--dst-ranks has \"{}\"; write a range upwards from 0, as 4-11", part);
    for (std::int64_t rank = first; rank <= last; ++rank) ranks.push_back(static_cast<int>(rank));
    if (comma == std::string_view::npos) return ranks;
    rest.remove_prefix(comma + 1);
  }
}

double parse_scale(const std::string& text) {
  if (text.empty()) return 1;
  const auto number = [&](std::string_view part) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || error != std::errc{} || end != part.data() + part.size()) value = -1;
    return value;
  };
  const std::size_t slash = text.find('/');
  double value = number(std::string_view(text).substr(0, slash));
  if (slash != std::string::npos) value /= number(std::string_view(text).substr(slash + 1));
  if (!(value > 0 && value <= 1)) bad_input("--scale is \"{}\"; write a part of 1, as 1/64", text);
  return value;
}

Sharding parse_spec(const std::string& text, const Mesh& mesh, std::string_view flag) {
  try {
    return parse_sharding(text, mesh);
  } catch (const Error& error) {
    bad_input("{} {}: {}", flag, text, error.what());
  }
}

}  // namespace weft
