// Builds the plan of a producer and a space: which routes the space has on the cluster, and which builder writes each.
// Where several are possible, choose.h takes the cheapest.
#include "weft/collective/build.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/collective/choose.h"
#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/plan/price/estimate.h"

namespace weft {
namespace {

// A message costs CPU time at both ends: tiles that travel between hosts are four times as large, as long as every rank
// still has enough of them to begin sending early. An all_reduce forwards tiles between those it makes, and does better
// with half that: gemm-ar 2048 x 2048, 2 hosts, 1 Gbit/s, in tiles of 64 / 128 / 256 rows: k 1832 177, 173, 184 ms, k
// 3674 330, 315, 345; gemm-rs k 900 97.9, 99.0, 95.0.
constexpr std::int64_t kWireTileRows = 256, kForwardedTileRows = 128;
constexpr std::int64_t kLeastWireTiles = 16;

bool takes_wire_tiles(const Producer& p, int num_ranks, const Cluster& cluster) {
  const bool wired = cluster.wire_message_s > 0 && num_ranks > cluster.ranks_per_host;
  return wired && p.kind == ProducerKind::gemm && p.tile[0] == 0 && p.tile[1] == 0;
}

Producer with_wire_tiles(Producer p, SpaceKind kind, int num_ranks, const Cluster& cluster) {
  if (!takes_wire_tiles(p, num_ranks, cluster)) return p;
  p.tile = {64, 64};
  const std::int64_t most_rows = kind == SpaceKind::all_reduce ? kForwardedTileRows : kWireTileRows;
  while (p.tile[0] < most_rows &&
         ceil_div(p.m, num_ranks * 2 * p.tile[0]) * ceil_div(p.n, p.tile[1]) >= kLeastWireTiles)
    p.tile[0] *= 2;
  return p;
}

// What a gather sends is strips of rows, however many columns are made of them: with few there is nothing to do while
// the first is under way. ag-gemm of 256 rows in one strip, 2 hosts, 50 Mbit/s: hidden 0.54.
constexpr std::int64_t kLeastStrips = 8;

Producer with_wire_strips(Producer p, int num_ranks, const Cluster& cluster) {
  if (!takes_wire_tiles(p, num_ranks, cluster)) return p;
  p.tile = {64, 64};
  while (p.tile[0] < kWireTileRows && ceil_div(p.m, 2 * p.tile[0]) >= kLeastStrips) p.tile[0] *= 2;
  while (p.tile[0] > 16 && ceil_div(p.m, p.tile[0]) < kLeastStrips / 2) p.tile[0] /= 2;
  return p;
}

// Between hosts, hearing that memory may be written takes as long as writing it, where that is little. With two copies
// of outputs and inboxes, what a rank opens or gives back in one run is written in the next but one, and nobody waits
// for it.
constexpr std::int64_t kOpenAheadBytes = std::int64_t{1} << 20;

void open_ahead(Plan* plan) {
  for (Rule& rule : plan->rules)
    for (WaitRule& wait : rule.waits)
      if (plan->counters[wait.counter].purpose != Purpose::data) ++wait.lag;
  for (Buffer& buffer : plan->buffers)
    if (buffer.role != Role::input) buffer.depth = 2;
}

bool opens_ahead(const Producer& p, const Space& space, const Cluster& cluster) {
  const std::int64_t ranks = space.kind == SpaceKind::all_gather ? space.num_ranks() : 1;
  return cluster.wire_message_s > 0 && space.num_ranks() > cluster.ranks_per_host &&
         p.m * p.n * ranks * std::int64_t{sizeof(float)} <= kOpenAheadBytes;
}

Plan build_two_level(const Producer& p, const Space& space, int ranks_per_host) {
  switch (space.kind) {
    case SpaceKind::reduce_scatter:
      return build_two_level_reduce_scatter(p, space, ranks_per_host);
    case SpaceKind::all_reduce:
      return build_two_level_all_reduce(p, space, ranks_per_host);
    case SpaceKind::all_gather:
      return build_two_level_all_gather(p, space, ranks_per_host);
    case SpaceKind::broadcast:
      return build_two_level_broadcast(p, space, ranks_per_host);
    default:
      fail(Code::internal, "{} has no two_level builder", to_string(space.kind));
  }
}

Plan build_route(const Producer& p, const Space& space, Route route, int ranks_per_host) {
  if (route == Route::two_level) return build_two_level(p, space, ranks_per_host);
  switch (space.kind) {
    case SpaceKind::keep:
      return build_keep(p, 1);
    case SpaceKind::reduce_scatter:
      return build_reduce_scatter(p, space, route);
    case SpaceKind::all_reduce:
      return build_all_reduce(p, space, route);
    case SpaceKind::all_gather:
      return build_all_gather(p, space, route);
    case SpaceKind::all_to_all:
      return build_all_to_all(p, space, route);
    case SpaceKind::broadcast:
      return build_broadcast(p, space);
  }
  fail(Code::internal, "space kind {} has no builder", static_cast<int>(space.kind));
}

Plan build_gather(const Producer& p, const Space& space, Route route, int ranks_per_host) {
  if (route == Route::two_level) return build_two_level_gather_gemm(p, space, ranks_per_host);
  return build_gather_gemm(p, space, route);
}

// No two ranks of a host need the same rows of an exchange: what crosses would be no less, and copied once more.
bool has_two_levels(SpaceKind kind) { return kind != SpaceKind::keep && kind != SpaceKind::all_to_all; }

void check_options(const Space& space, std::vector<Route> known) {
  const SpaceOptions& o = space.options;
  if (has_two_levels(space.kind)) known.push_back(Route::two_level);
  if (space.kind == SpaceKind::all_reduce)
    known.insert(known.end(), {Route::ring_shot, Route::halving_doubling, Route::torus});
  if (o.route == Route::two_level && space.kind == SpaceKind::all_to_all)
    bad_input(
        "all_to_all has no route two_level: no two ranks of a host need the same rows; use auto, direct or staged");
  if (o.route != Route::automatic && std::find(known.begin(), known.end(), o.route) == known.end()) {
    std::vector<std::string_view> names{to_string(Route::automatic)};
    for (const Route route : known) names.push_back(to_string(route));
    bad_input("{} has no route {}; use {}", to_string(space.kind), to_string(o.route), fmt::join(names, ", "));
  }
  if (!sums(space.kind) && o.wire != Dtype::f32)
    bad_input("{} moves finished results, not partial sums: wire is {}, use f32", to_string(space.kind),
              to_string(o.wire));
  if (o.wire_sums && space.kind != SpaceKind::all_reduce)
    bad_input("{} sends no sums to everybody: leave wire_sums out, or use all_reduce", to_string(space.kind));
  if (o.slices < 0) bad_input("slices is {}; give a positive number, or 0 to let Weft choose", o.slices);
  if (o.slices > 0 && space.kind != SpaceKind::all_reduce)
    bad_input("{} is not made in slices; leave slices at 0", to_string(space.kind));
  if (!o.rows.empty() && space.kind != SpaceKind::all_to_all)
    bad_input("{} takes no row counts; leave rows empty, or use all_to_all", to_string(space.kind));
}

// The ranks of a group as the cluster sees them: neighbours along an axis are `stride` ranks apart.
Cluster cluster_of_group(const Space& space, const Cluster& cluster) {
  Cluster out = fitted(cluster, space.mesh.size());
  const Group group = space.mesh.group(space.axis, 0);
  const int stride = group.size() > 1 ? group.ranks[1] - group.ranks[0] : 1;
  out.ranks_per_host = std::max(1, out.ranks_per_host / stride);
  out.num_hosts = static_cast<int>(ceil_div(group.size(), out.ranks_per_host));
  return out;
}

// All routes of a group; the cluster is the group's.
std::vector<Route> routes_on(const Space& space, const std::vector<Route>& flat, const Cluster& cluster) {
  std::vector<Route> out = flat;
  if (has_two_levels(space.kind) && fills_hosts(space.num_ranks(), cluster.ranks_per_host))
    out.push_back(Route::two_level);
  return out;
}

Plan choose(const Producer& p, const Space& space, const std::vector<Route>& flat, const Cluster& whole,
            const Builder& builder) {
  const Cluster cluster = cluster_of_group(space, whole);
  const std::vector<Route> known = routes_on(space, flat, cluster);
  const bool asked = space.options.route != Route::automatic;
  if (!asked && known.size() > 1) return cheapest(p, space, known, cluster, builder);
  const Route route = asked ? space.options.route : known.front();
  Plan plan = builder(p, space, route, cluster.ranks_per_host);
  plan.why = fmt::format("{}: {}{}", to_string(route), asked ? "as asked" : "the only route", remark(space, route));
  return plan;
}

// A page is in one place: what must be on every rank as it is written, or must pass through others, is beyond a window.
Plan build_window(const Producer& p, const Space& space) {
  const Route route = space.options.route;
  const bool sums = space.kind == SpaceKind::all_reduce;
  if (!sums && space.kind != SpaceKind::reduce_scatter && space.kind != SpaceKind::all_to_all)
    bad_input(
        "{} has no window: each of its rows goes to several ranks; use reduce_scatter, all_reduce, all_to_all or keep",
        to_string(space.kind));
  if (space.kind == SpaceKind::all_to_all && p.ld != 0 && p.ld != p.n)
    bad_input("rows of an all_to_all's window lie in outputs of {} columns; leave out ld, which is {}", p.n, p.ld);
  const Route only = sums ? Route::two_shot : Route::direct;
  if (route != Route::automatic && route != only)
    bad_input("a window stores every row at its owner; route {} cannot, use auto or {}", to_string(route),
              to_string(only));
  // What is written is what crosses, as it is: in the window's own type, whatever is asked for at most.
  const Dtype wire = space.options.wire;
  if ((wire != Dtype::f32 && wire != p.y()) || (sums && sums_format(space) != Dtype::f32))
    bad_input("a window is written in {}, not {}; leave wire and wire_sums at f32", to_string(p.y()), to_string(wire));
  Plan plan = space.kind == SpaceKind::all_to_all ? build_all_to_all(p, space)
              : sums                              ? build_window_all_reduce(p, space)
                                                  : build_window_reduce_scatter(p, space);
  plan.why = fmt::format("{}: the only route of a window", to_string(only));
  return plan;
}

Plan alone(const Producer& p, std::string name) {
  Plan plan = build_keep(p, 1);
  plan.name = std::move(name);
  plan.why = "local: one rank, nothing to move";
  return plan;
}

}  // namespace

std::vector<Route> routes(SpaceKind kind) {
  switch (kind) {
    case SpaceKind::keep:
      return {Route::local};
    case SpaceKind::reduce_scatter:
      return {Route::ring, Route::direct};
    case SpaceKind::all_reduce:
      return {Route::ring, Route::two_shot, Route::one_shot};
    case SpaceKind::all_gather:
      return {Route::ring, Route::direct};
    case SpaceKind::all_to_all:
      return {Route::direct, Route::staged};
    case SpaceKind::broadcast:
      return {Route::chain};
  }
  return {};
}

std::vector<Route> routes(const Space& space, const Cluster& cluster) {
  if (space.kind == SpaceKind::keep) return routes(space.kind);  // no group
  return routes_on(space, routes(space.kind), cluster_of_group(space, cluster));
}

std::vector<Route> gather_routes() { return {Route::ring, Route::direct, Route::staged}; }

std::vector<Route> gather_routes(const Space& space, const Cluster& cluster) {
  return routes_on(space, gather_routes(), cluster_of_group(space, cluster));
}

Plan build(const Producer& producer, const Space& space, const Cluster& cluster) {
  check_options(space, routes(space.kind));
  const Producer p = validated(with_wire_tiles(producer, space.kind, space.num_ranks(), cluster), space.num_ranks());
  if (space.kind == SpaceKind::keep) return alone(p, fmt::format("{} keep", to_string(p.kind)));
  // Row counts can leave rows out, even on one rank: only the exchange itself does that.
  if (space.num_ranks() == 1 && space.options.rows.empty())
    return alone(p, fmt::format("{} {} local", to_string(p.kind), to_string(space.kind)));
  if (p.kind == ProducerKind::window) return build_window(p, space);
  const bool ahead = opens_ahead(p, space, cluster);
  return choose(p, space, routes(space.kind), cluster,
                [ahead](const Producer& producer, const Space& s, Route route, int ranks_per_host) {
                  Plan plan = build_route(producer, s, route, ranks_per_host);
                  if (ahead) open_ahead(&plan);
                  return plan;
                });
}

Plan build(const Space& gather, const Producer& producer, const Cluster& cluster) {
  if (gather.kind != SpaceKind::all_gather)
    bad_input("{} cannot feed a {}; only all_gather brings rows to a gemm", to_string(gather.kind),
              to_string(producer.kind));
  if (producer.kind != ProducerKind::gemm)
    bad_input("rows are gathered for a gemm, not for {}; use gemm", to_string(producer.kind));
  check_options(gather, gather_routes());
  const Producer p = validated(with_wire_strips(producer, gather.num_ranks(), cluster), gather.num_ranks());
  if (!p.n_of.empty()) bad_input("a gemm on gathered rows has one width; give every rank the same n");
  if (p.addend)
    bad_input(
        "a gemm on gathered rows has no addend: it would have more rows than its x; use a residual, or add it after");
  if (gather.num_ranks() == 1) return alone(p, "all_gather gemm local");
  return choose(p, gather, gather_routes(), cluster, build_gather);
}

}  // namespace weft
