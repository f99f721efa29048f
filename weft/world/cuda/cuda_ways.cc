#include "weft/world/cuda/cuda_ways.h"

#include <fmt/core.h>

#include "weft/collective/build.h"

namespace weft {
namespace {

// Of one_shot a rank has everybody's sums in its inbox; and of few rows it would cut tiles.
bool takes_one_shot(const Producer& p, const Space& space) {
  const std::int64_t inbox = p.m * p.n * space.num_ranks() * size_of(p.y());
  return p.m > p.tile[0] && inbox <= kMaxOneShotBytes;
}

}  // namespace

Space by_route(Space space, Route route) {
  space.options.route = route;
  return space;
}

std::string to_string(const CudaWay& way) {
  const LaneOrder plain;
  std::string out(to_string(way.route));
  const auto add = [&](const char* name, int value, int usual) {
    if (value != usual) out += fmt::format(", {} {}", name, value);
  };
  add("gathered_rows", way.order.gathered_rows, plain.gathered_rows);
  add("sent_cols", way.order.sent_cols, plain.sent_cols);
  add("part_cols", way.order.part_cols, plain.part_cols);
  return out;
}

std::vector<CudaWay> cuda_ways(const Producer& producer, const Space& space) {
  if (space.kind == SpaceKind::keep) return {{}};
  if (space.num_ranks() == 1) return {{routes(space.kind).front()}};  // one plan by all of them
  const bool makes = producer.kind != ProducerKind::copy;
  std::vector<Route> open{space.options.route};
  if (open[0] == Route::automatic) {
    open = routes(space.kind);
    if (space.kind == SpaceKind::all_reduce) open.push_back(Route::ring_shot);
    if (!takes_one_shot(producer, space)) std::erase(open, Route::one_shot);
    if (makes) std::erase(open, Route::staged);  // it makes all rows, whatever the counts of a run
  }
  std::vector<CudaWay> out;
  for (const Route route : open) {
    out.push_back({route});
    if (makes && route == Route::direct && space.kind == SpaceKind::reduce_scatter)
      for (const int cols : {2, 8}) out.push_back({route, {.sent_cols = cols}});
  }
  return out;
}

std::vector<CudaWay> cuda_gather_ways(const Space& gather) {
  if (gather.num_ranks() == 1) return {{gather_routes().front()}};
  std::vector<Route> open{gather.options.route};
  if (open[0] == Route::automatic) open = gather_routes();
  std::vector<CudaWay> out;
  for (const Route route : open) {
    if (route != Route::direct) {
      out.push_back({route});
      continue;
    }
    const int rows = LaneOrder{}.gathered_rows;
    for (const LaneOrder& order : {LaneOrder{.gathered_rows = 1, .part_cols = kStripCols},
                                   {.part_cols = kStripCols},
                                   LaneOrder{},
                                   {.gathered_rows = 2 * rows}})
      out.push_back({route, order});
  }
  return out;
}

}  // namespace weft
