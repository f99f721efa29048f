#include "weft/sim/step/writer.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/collective/build.h"
#include "weft/plan/verify/verify.h"

namespace weft::netsim {
namespace {

constexpr Names<Overlap, 3> kOverlaps{
    {{Overlap::bulk, "bulk"}, {Overlap::panels, "panels"}, {Overlap::fused, "fused"}}};
constexpr std::int64_t kWord = 4;

Space space_for(SpaceKind kind, int ranks, Route route) {
  Space out;
  out.kind = kind;
  out.mesh = Mesh({{"group", ranks}});
  out.axis = "group";
  if (kind == SpaceKind::all_reduce) out.options.route = route == Route::automatic ? Route::ring : route;
  if (kind == SpaceKind::reduce_scatter || kind == SpaceKind::all_gather) out.options.route = Route::ring;
  if (kind == SpaceKind::all_to_all) out.options.route = Route::direct;
  return out;
}

}  // namespace

SpaceKind space_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return SpaceKind::all_reduce;
    case Collective::reduce_scatter:
      return SpaceKind::reduce_scatter;
    case Collective::all_gather:
      return SpaceKind::all_gather;
    case Collective::all_to_all:
      return SpaceKind::all_to_all;
    case Collective::none:
      break;
  }
  fail(Code::internal, "no collective has no space");
}

std::string_view to_string(Overlap overlap) { return weft::name_of(kOverlaps, overlap); }
Overlap parse_overlap(std::string_view name) { return parse_name(kOverlaps, "overlap", name); }

GraphWriter::GraphWriter(std::string name, const PlanOptions& options) : options_(options) {
  graph_.name = std::move(name);
  if (options.pieces < 1 || options.pieces > 4096) bad_input("chunks in {} pieces; use 1 to 4096", options.pieces);
}

std::int32_t GraphWriter::name(std::string_view text) {
  const auto found = names_.find(text);
  if (found != names_.end()) return found->second;
  graph_.names.emplace_back(text);
  return names_[std::string(text)] = int_size(graph_.names) - 1;
}

// A row per rank and chunk. An all_gather's ranks have one row each.
Plan GraphWriter::build_alone(const CollectiveShape& shape) const {
  const std::int64_t cols = std::max<std::int64_t>(1, ceil_div(shape.bytes, kWord * shape.ranks));
  const std::int64_t rows = shape.kind == SpaceKind::all_gather ? 1 : shape.ranks;
  return build(copy({.rows = rows, .cols = cols, .tile = {1, cols}}),
               space_for(shape.kind, shape.ranks, options_.route));
}

Plan GraphWriter::build_fused(const CollectiveShape& shape) const {
  const std::int64_t cols = std::max<std::int64_t>(1, ceil_div(shape.bytes, kWord * shape.ranks * options_.pieces));
  const Space space = space_for(shape.kind, shape.ranks, options_.route);
  const std::int64_t chunk = options_.pieces;
  if (shape.gathers_first) {  // each rank's rows are `pieces` rows of cols words; what it makes of them is its own
    return build(space, gemm({.m = chunk, .n = 1, .k = cols, .tile = {1, 1}}));
  }
  const std::int64_t rows = shape.kind == SpaceKind::all_gather ? chunk : chunk * shape.ranks;
  return build(gemm({.m = rows, .n = cols, .k = 1, .tile = {1, cols}}), space);
}

std::int32_t GraphWriter::shape(const CollectiveShape& shape) {
  const std::string key =
      fmt::format("{}{}, {} ranks, {} bytes{}", to_string(shape.kind), shape.gathers_first ? " first" : "", shape.ranks,
                  shape.bytes, shape.seconds > 0 ? fmt::format(", fused with {} s", shape.seconds) : "");
  const auto found = shapes_.find(key);
  if (found != shapes_.end()) return found->second;
  if (shape.bytes < 1) bad_input("{}: nothing to move; give at least 1 byte", key);
  StepShape out;
  out.name = key;
  out.plan = shape.seconds > 0 ? build_fused(shape) : build_alone(shape);
  out.seconds = shape.seconds, out.bytes = shape.bytes;
  if (options_.prove) require_runnable(out.plan);
  graph_.shapes.push_back(std::move(out));
  return shapes_[key] = int_size(graph_.shapes) - 1;
}

std::int32_t ProgramWriter::add(StepNode node, const Nodes& needs) {
  node.needs.begin = int_size(program_.needs);
  for (const std::int32_t need : needs)
    if (need >= 0 &&
        std::find(program_.needs.begin() + node.needs.begin, program_.needs.end(), need) == program_.needs.end())
      program_.needs.push_back(need);
  node.needs.end = int_size(program_.needs);
  program_.nodes.push_back(node);
  return size() - 1;
}

std::int32_t ProgramWriter::compute(std::int32_t name, double seconds, const Nodes& needs) {
  StepNode node;
  node.name = name, node.takes = sim::picoseconds(seconds);
  return add(node, needs);
}

std::int32_t ProgramWriter::collective(std::int32_t name, std::int32_t shape, std::int32_t communicator,
                                       const Nodes& needs) {
  StepNode node;
  node.kind = NodeKind::collective;
  node.name = name, node.shape = shape, node.communicator = communicator;
  node.tag = size();
  return add(node, needs);
}

std::int32_t ProgramWriter::transfer(const StepNode& node, const Nodes& needs) { return add(node, needs); }

}  // namespace weft::netsim
