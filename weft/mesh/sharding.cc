#include "weft/mesh/sharding.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/mesh/mesh.h"

namespace weft {
namespace {

// The axes of a split as numbers in the mesh, and the parts they make together.
struct Place {
  std::vector<int> axes;
  std::int64_t parts = 1;

  std::int64_t index_of(const Mesh& mesh, int rank) const {
    std::int64_t index = 0;
    for (const int axis : axes) index = index * mesh.axes()[at(axis)].size + mesh.coordinate(rank, axis);
    return index;
  }
};

Place place(const std::vector<std::string>& names, const Mesh& mesh, std::vector<char>& used) {
  Place result;
  for (const std::string& name : names) {
    const int axis = mesh.axis_index(name);
    if (used[at(axis)]++)
      bad_input("axis \"{}\" is used twice in one sharding; an axis can split one dimension or be partial", name);
    result.axes.push_back(axis);
    result.parts *= mesh.axes()[at(axis)].size;
  }
  return result;
}

// A sharding looked up in its mesh once, so that asking for many ranks costs no name lookups.
struct Layout {
  std::vector<Place> dims;
  Place partial;

  Layout(const Shape& shape, const Sharding& sharding, const Mesh& mesh) {
    if (shape.size() > num(kMaxDims))
      bad_input("a tensor of {} dimensions; at most {} are supported", shape.size(), kMaxDims);
    if (shape.size() != sharding.dims.size())
      bad_input("sharding \"{}\" is for {} dimensions, but the tensor has {}; name R or S for each",
                to_string(sharding), sharding.dims.size(), shape.size());
    std::vector<char> used(mesh.axes().size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] < 0) bad_input("dim {} of the tensor is {}; a size is at least 0", d, shape[d]);
      dims.push_back(place(sharding.dims[d].axes, mesh, used));
    }
    partial = place(sharding.partial, mesh, used);
  }

  Box box(const Shape& shape, const Mesh& mesh, int rank) const {
    Box result;
    result.dims = int_size(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t index = dims[d].index_of(mesh, rank);
      result.lo[d] = cut(shape[d], dims[d].parts, index);
      result.hi[d] = cut(shape[d], dims[d].parts, index + 1);
    }
    return result;
  }
};

// The parts between commas outside parentheses, without the blanks around them.
std::vector<std::string_view> comma_separated(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (text[i] != ',' || depth != 0)) {
      depth += (text[i] == '(') - (text[i] == ')');
      continue;
    }
    std::string_view part = text.substr(begin, i - begin);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

// "S01" or "S(tp,dp)", after its letter: the axes it names.
std::vector<std::string> parse_axes(std::string_view text, std::string_view whole_text, const Mesh& mesh) {
  std::vector<std::string> names;
  if (text.size() >= 2 && text.front() == '(' && text.back() == ')') {
    for (const std::string_view name : comma_separated(text.substr(1, text.size() - 2)))
      names.push_back(mesh.axis(name).name);
    return names;
  }
  for (const char digit : text) {
    if (digit < '0' || digit > '9')
      bad_input("cannot read \"{}\" in sharding \"{}\"; write axes as S01 or S(tp,dp)", text, whole_text);
    if (digit - '0' >= mesh.num_axes())
      bad_input("sharding \"{}\" names axis {}, but the mesh ({}) has {}; number axes from 0", whole_text, digit,
                to_string(mesh), mesh.num_axes());
    names.push_back(mesh.axes()[at(digit - '0')].name);
  }
  if (names.empty())
    bad_input("sharding \"{}\" has a letter without axes; write S0 or S(tp), or R to replicate", whole_text);
  return names;
}

}  // namespace

Sharding parse_sharding(std::string_view text, const Mesh& mesh) {
  Sharding sharding;
  const std::size_t plus = text.find('+');
  if (plus != std::string_view::npos) {
    if (plus + 1 >= text.size() || text[plus + 1] != 'P')
      bad_input("cannot read \"{}\" in sharding \"{}\"; write partial axes as +P1 or +P(dp)", text.substr(plus), text);
    sharding.partial = parse_axes(text.substr(plus + 2), text, mesh);
  }
  const std::string_view dims = text.substr(0, plus);
  for (const std::string_view part : dims.empty() ? std::vector<std::string_view>{} : comma_separated(dims)) {
    if (part == "R") {
      sharding.dims.push_back({});
    } else if (!part.empty() && part.front() == 'S') {
      sharding.dims.push_back({parse_axes(part.substr(1), text, mesh)});
    } else {
      bad_input("cannot read \"{}\" in sharding \"{}\"; write R, S0 or S(tp) for each dimension", part, text);
    }
  }
  std::vector<char> used(mesh.axes().size());
  for (const Split& split : sharding.dims) place(split.axes, mesh, used);
  place(sharding.partial, mesh, used);
  return sharding;
}

std::string to_string(const Sharding& sharding) {
  std::string text;
  for (const Split& split : sharding.dims) {
    if (!text.empty()) text += ",";
    text += split.axes.empty() ? "R" : fmt::format("S({})", fmt::join(split.axes, ","));
  }
  if (!sharding.partial.empty()) text += fmt::format("+P({})", fmt::join(sharding.partial, ","));
  return text;
}

void check_sharding(const Shape& shape, const Sharding& sharding, const Mesh& mesh, const ShardingRules& rules) {
  const Layout layout(shape, sharding, mesh);
  if (rules.uneven) return;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t parts = layout.dims[d].parts;
    const std::int64_t rest = shape[d] % parts;
    if (rest == 0) continue;
    const auto& axes = sharding.dims[d].axes;
    bad_input(
        "cannot split dim {} of \"{}\" ({} rows) over {} \"{}\" ({} ranks): {} left over; pad to {} or pass "
        ".uneven = true",
        d, rules.name, shape[d], axes.size() == 1 ? "axis" : "axes", fmt::join(axes, ","), parts,
        rest == 1 ? "1 row" : fmt::format("{} rows", rest), shape[d] - rest + parts);
  }
}

Box whole(const Shape& shape) {
  if (shape.size() > num(kMaxDims))
    bad_input("a tensor of {} dimensions; at most {} are supported", shape.size(), kMaxDims);
  Box box;
  box.dims = int_size(shape);
  std::copy(shape.begin(), shape.end(), box.hi.begin());
  return box;
}

Box shard_box(const Shape& shape, const Sharding& sharding, const Mesh& mesh, int rank) {
  if (rank < 0 || rank >= mesh.size())
    bad_input("no rank {} in a mesh of {}; use 0 to {}", rank, mesh.size(), mesh.size() - 1);
  return Layout(shape, sharding, mesh).box(shape, mesh, rank);
}

std::vector<Shard> owners(const Shape& shape, const Sharding& sharding, const Mesh& mesh) {
  return owners(shape, sharding, mesh, whole(shape));
}

std::vector<Shard> owners(const Shape& shape, const Sharding& sharding, const Mesh& mesh, const Box& within) {
  const Layout layout(shape, sharding, mesh);
  if (within.dims != int_size(shape))
    bad_input("box {} has {} dimensions, but the tensor has {}", to_string(within), within.dims, shape.size());
  std::int64_t num_shards = layout.partial.parts;  // at most the ranks of the mesh: no axis is used twice
  for (const Place& dim : layout.dims) num_shards *= dim.parts;

  std::vector<Shard> shards(num(num_shards));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    std::int64_t index = 0;
    for (const Place& dim : layout.dims) index = index * dim.parts + dim.index_of(mesh, rank);
    const std::int64_t part = layout.partial.index_of(mesh, rank);
    Shard& shard = shards[at(index * layout.partial.parts + part)];
    if (shard.ranks.empty()) {
      shard.box = intersect(layout.box(shape, mesh, rank), within);
      shard.part = static_cast<int>(part);
    }
    shard.ranks.push_back(rank);
  }
  std::erase_if(shards, [](const Shard& shard) { return shard.box.empty(); });
  return shards;
}

}  // namespace weft
