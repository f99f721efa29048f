#include "weft/collective/choose.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "weft/base/index.h"
#include "weft/base/units.h"
#include "weft/collective/build.h"
#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

// Larger groups are priced by a twin of about this size: a plan of N ranks has N x N actions.
constexpr int kPricedRanks = 32;
// A rank with more rows than these reads its weights for tiles that are full without those of others.
constexpr std::int64_t kThinRows = 64;

bool candidate(const Producer& p, const Space& space, Route route) {
  const std::int64_t n = space.num_ranks();
  // What a stage saves is weights read again, by tiles cut short where one rank's rows end and the next one's begin.
  if (route == Route::staged && space.kind == SpaceKind::all_gather) return n <= kMaxStagedRanks && p.m <= kThinRows;
  if (route == Route::staged)
    return p.kind == ProducerKind::gemm && n <= kMaxStagedRanks && ceil_div(p.m, n) < p.tile[0];
  if (route != Route::one_shot) return true;
  const std::int64_t inbox = n * n * ceil_div(p.m, n) * row_bytes(space.options.wire, p.n);
  return n <= kMaxOneShotRanks && inbox <= kMaxOneShotBytes;
}

// What one rank makes and sends.
struct Work {
  double elements = 0, bytes = 0;
};

Work work_of_rank_0(const Plan& plan) {
  const Program program = Expander(plan).program(0);
  Work out;
  for (const Action& action : program.actions)
    if (action.kind == ActionKind::step) out.elements += action.box.volume();
  out.bytes = traffic(plan, program).bytes_to_peers;
  return out;
}

// Ranks of the twin: where hosts are full in the group, they are in the twin, and it has two of them.
int twin_ranks(int num_ranks, int ranks_per_host) {
  if (!fills_hosts(num_ranks, ranks_per_host)) return kPricedRanks;
  return std::min(num_ranks, std::max(2, kPricedRanks / ranks_per_host) * ranks_per_host);
}

// The twin of a large group: fewer ranks, and chunks of the same size where rows are cut among the ranks.
// Computing grows from it to the plan as what a rank makes does, and the rest as what it sends.
double price_by_twin(const Plan& plan, const Producer& p, const Space& space, Route route, const Builder& builder,
                     Cluster cluster) {
  Space twin = space;
  const int ranks = twin_ranks(space.num_ranks(), cluster.ranks_per_host);
  twin.mesh = Mesh({{space.axis, ranks}});
  Producer q = p;
  if (space.kind != SpaceKind::all_gather) q.m = std::max<std::int64_t>(1, ceil_div(p.m * ranks, space.num_ranks()));
  q.tile[0] = std::min(q.tile[0], q.m);
  cluster.num_hosts = static_cast<int>(ceil_div(ranks, cluster.ranks_per_host));
  const Plan small = builder(q, twin, route, cluster.ranks_per_host);
  const Estimate e = estimate(small, cluster);
  const Work full = work_of_rank_0(plan), part = work_of_rank_0(small);
  const auto growth = [](double of, double from) { return from > 0 ? of / from : 1; };
  return e.compute_seconds * growth(full.elements, part.elements) +
         e.exposed_seconds() * growth(full.bytes, part.bytes);
}

std::string reason(const Producer& p, const Space& space, const Cluster& cluster,
                   const std::vector<std::pair<Route, double>>& prices, std::size_t best) {
  std::vector<std::string> others;
  for (std::size_t i = 0; i < prices.size(); ++i)
    if (i != best)
      others.push_back(fmt::format("{} {}", to_string(prices[i].first), format_duration(prices[i].second)));
  const bool network = space.num_ranks() > cluster.ranks_per_host;
  return fmt::format("{}: estimated {}{}{} ({} ranks, {}, {} {})", to_string(prices[best].first),
                     format_duration(prices[best].second), others.empty() ? "" : "; ", fmt::join(others, ", "),
                     space.num_ranks(), format_bytes(p.m * p.n * 4), network ? "network" : "local",
                     format_rate((network ? cluster.network : cluster.local).bytes_per_s));
}

// What a library's product, followed by the collective, would take, where the cluster knows of a faster library and a
// plan's own tiles would lose to it. None: no such library, or fusing wins. The tiles of a plan are made by Weft's
// kernels, so this is told and not taken; a window lets the library be the producer.
std::optional<double> faster_by_library(const Producer& p, const Space& space, const std::vector<Route>& known,
                                        const Cluster& cluster, const Builder& builder, double fused_s) {
  const bool plain = p.kind == ProducerKind::gemm && p.weight == Dtype::f32 && !p.has_epilogue() && !p.addend;
  if (!plain || !sums(space.kind) || cluster.library_flops_per_s <= cluster.flops_per_s ||
      space.num_ranks() > kPricedRanks)
    return {};
  const Producer moved = validated(copy({.rows = p.m, .cols = p.n}), space.num_ranks());
  double collective_s = fused_s;
  for (const Route route : known)
    if (candidate(moved, space, route))
      collective_s =
          std::min(collective_s, estimate(builder(moved, space, route, cluster.ranks_per_host), cluster).seconds);
  const double s = estimate(build_keep(p, 1), by_fastest_product(cluster)).seconds + collective_s;
  return s < fused_s ? std::optional(s) : std::nullopt;
}

// Between hosts prices so near are alike: what they leave out (interrupts, cores that are throttled) grows with the
// bytes sent. gemm-ar 1024 x 1024 x 10215, 4 hosts of half a core: 466 ms by ring and by one_shot, which sends twice as
// much and took 635 ms.
constexpr double kAlike = 1.03;

// What the ranks of the first host send to others.
std::int64_t bytes_to_hosts(const Plan& plan, int ranks_per_host) {
  const Expander expander(plan);
  std::int64_t bytes = 0;
  for (int rank = 0; rank < std::min(ranks_per_host, plan.num_ranks); ++rank) {
    const Program program = expander.program(rank);
    for (const Action& action : program.actions)
      for (const Piece& target : program.targets(action))
        if (target.rank >= ranks_per_host) bytes += travel_bytes(plan, program, action, target);
  }
  return bytes;
}

// The plan of the least price; of those alike the one that sends least, of those the first.
std::size_t best_of(const std::vector<std::pair<Route, double>>& prices, const std::vector<Plan>& plans,
                    int ranks_per_host) {
  const auto cheaper = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto least = std::min_element(prices.begin(), prices.end(), cheaper);
  auto best = num(least - prices.begin());
  std::int64_t fewest = bytes_to_hosts(plans[best], ranks_per_host);
  for (std::size_t i = prices.size(); i-- > 0 && fewest > 0;) {
    if (prices[i].second > kAlike * least->second) continue;
    const std::int64_t bytes = bytes_to_hosts(plans[i], ranks_per_host);
    if (bytes <= fewest) best = i, fewest = bytes;
  }
  return best;
}

}  // namespace

bool sums(SpaceKind kind) { return kind == SpaceKind::reduce_scatter || kind == SpaceKind::all_reduce; }

std::string remark(const Space& space, Route route) {
  return route == Route::two_level && sums(space.kind) ? "; sums go host by host, so bits differ from flat routes" : "";
}

Plan cheapest(const Producer& p, const Space& space, const std::vector<Route>& known, const Cluster& cluster,
              const Builder& builder) {
  std::vector<std::pair<Route, double>> prices;
  std::vector<Plan> plans;
  for (const Route route : known) {
    if (!candidate(p, space, route)) continue;
    Plan plan = builder(p, space, route, cluster.ranks_per_host);
    prices.emplace_back(route, space.num_ranks() > kPricedRanks ? price_by_twin(plan, p, space, route, builder, cluster)
                                                                : estimate(plan, cluster).seconds);
    plans.push_back(std::move(plan));
  }
  const std::size_t best = best_of(prices, plans, cluster.ranks_per_host);
  plans[best].why = reason(p, space, cluster, prices, best) + remark(space, prices[best].first);
  if (const auto s = faster_by_library(p, space, known, cluster, builder, prices[best].second))
    plans[best].why += fmt::format("; a library's product, then the collective: estimated {}", format_duration(*s));
  return std::move(plans[best]);
}

}  // namespace weft
