// Random plans on random networks: a thousand draws of collective, route, shape, tile, network, rates, packet, burst
// and computing. Whatever is drawn, all lanes run, links carry the bytes that the plan owes, nothing is faster than its
// hottest link or its longest chain, and folded ranks take the picoseconds of all ranks.
#include <random>

#include <gtest/gtest.h>

#include "weft/plan/plans_test.h"
#include "weft/plan/price/traffic.h"
#include "weft/sim/net/run.h"

namespace weft::netsim {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <typename T>
  T of(const std::vector<T>& list) {
    return list[at(below(int_size(list)))];
  }
  Link link() { return {of<double>({1e8, 1e9, 3e9, 25e9}) * (1 + below(3)), of<double>({0, 100e-9, 700e-9, 3e-6})}; }

  // Two or more factors, each at least 2; empty where there are none.
  std::vector<int> factors(int n) {
    std::vector<int> out;
    for (int size = 2; n > 1; ++size)
      for (; n % size == 0; n /= size) out.push_back(size);
    std::shuffle(out.begin(), out.end(), random_);
    while (out.size() > 2 && below(2) == 0) {
      out[0] *= out.back();
      out.pop_back();
    }
    return out.size() < 2 ? std::vector<int>{} : out;
  }

  Producer producer(int ranks, bool even) {
    const std::int64_t rows = even ? ranks * (1 + below(12)) : 1 + below(16 * ranks), cols = 1 + below(40);
    const std::array<std::int64_t, 2> tile{1 + below(8), of<std::int64_t>({4, 8, 16})};
    if (below(3) == 0) return validated(copy({.rows = rows, .cols = cols, .tile = tile}), ranks);
    return validated(gemm({.m = rows, .n = cols, .k = 5, .tile = tile, .bias = below(2) == 0}), ranks);
  }

  Plan all_reduce(int ranks) {
    const std::vector<int> dims = factors(ranks);
    const bool is_power = (ranks & (ranks - 1)) == 0;
    const int kind = below(6);
    Space space = testing_plans::space_of(ranks, SpaceKind::all_reduce);
    if (kind == 0 && is_power) return build_all_reduce(producer(ranks, true), space, Route::halving_doubling);
    if (kind < 3 && !dims.empty()) {
      space.options.torus = dims;
      return build_all_reduce(producer(ranks, true), space, Route::torus);
    }
    if (kind == 3 && !dims.empty())
      return build_two_level_all_reduce(producer(ranks, below(2) == 0), space, dims.back());
    space.options.slices = below(4);
    const Route route = of<Route>({Route::ring, Route::two_shot, Route::one_shot});
    if (route == Route::one_shot) space.options.slices = 0;
    return build_all_reduce(producer(ranks, below(2) == 0), space, route);
  }

  Plan plan(int ranks) {
    const bool even = below(2) == 0;
    const Route route = of<Route>({Route::ring, Route::direct});
    switch (below(6)) {
      case 0:
        return testing_plans::reduce_scatter_plan(producer(ranks, even), ranks, route);
      case 1:
        return testing_plans::all_gather_plan(producer(ranks, even), ranks, route);
      case 2:
        return build_all_to_all(producer(ranks, even), testing_plans::space_of(ranks, SpaceKind::all_to_all));
      case 3:
        return build_broadcast(producer(ranks, even), testing_plans::space_of(ranks, SpaceKind::broadcast));
      default:
        return all_reduce(ranks);
    }
  }

  Topology network(int ranks) {
    const std::vector<int> dims = factors(ranks);
    Topology out = plain(ranks);
    if (!dims.empty() && below(3) > 0) {
      std::vector<Link> links;
      for (std::size_t d = 0; d < dims.size(); ++d) links.push_back(link());
      out = torus_topology(dims, links);
      if (below(3) == 0) out = rails_topology(ranks / dims[0], dims[0], link(), link());
      if (below(4) == 0)
        out = clos_topology({.ranks = ranks,
                             .ranks_per_leaf = dims[0],
                             .num_spines = 1 + below(4),
                             .link = link(),
                             .uplink = link(),
                             .spines = of<Spines>({Spines::balanced, Spines::hashed}),
                             .seed = random_()});
    }
    if (below(6) == 0) slow_rank(&out, below(ranks), 1.5 + below(3), "test");
    out.packet_bytes = of<std::int64_t>({0, 64, 4096, kWholeMessage});
    return out;
  }

 private:
  Topology plain(int ranks) {
    switch (below(4)) {
      case 0:
        return ring_topology(ranks, link());
      case 1:
        return full_topology(ranks, link());
      case 2:
        return nics_topology(one_nic_a_host(ranks, 1, link(), link()));
      default:
        return switch_topology(ranks, link());
    }
  }

  std::mt19937 random_;
};

double step_time(const Program&, const Action& action) { return static_cast<double>(action.box.volume()) * 1.7e-9; }

TEST(RandomRuns, AreWholeBoundedAndFoldToThePicosecond) {
  int folds = 0, several_dims = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Draw draw(seed);
    const int ranks = 2 + draw.below(15);
    const Plan plan = draw.plan(ranks);
    const Topology network = draw.network(ranks);
    NetOptions options;
    options.script.burst = draw.of<std::int64_t>({1, 1, 3, 1 << 20});
    if (draw.below(3) > 0) options.script.step_seconds = step_time;
    const std::string name = fmt::format("seed {}: {} on {} of {}", seed, plan.name, network.name, ranks);
    const NetResult folded = simulate(plan, network, options);
    options.ranks = Ranks::every;
    const NetResult every = simulate(plan, network, options);
    const Traffic owed = traffic(plan).total;
    EXPECT_EQ(every.bytes, owed.bytes_to_peers) << name;
    EXPECT_EQ(every.signals, owed.signals_to_peers) << name;
    EXPECT_GE(every.end, std::max({every.bound, every.chain, every.compute})) << name;
    EXPECT_EQ(every.simulated, ranks) << name;
    EXPECT_EQ(folded.end, every.end) << name;
    EXPECT_EQ(folded.bytes, every.bytes) << name;
    EXPECT_EQ(folded.lanes, every.lanes) << name;
    EXPECT_EQ(folded.bound, every.bound) << name;
    EXPECT_EQ(folded.chain, every.chain) << name;
    EXPECT_EQ(folded.compute, every.compute) << name;
    folds += folded.simulated < ranks;
    several_dims += network.dims.size() > 2 && folded.simulated < ranks;
  }
  EXPECT_GT(folds, 200);
  EXPECT_GT(several_dims, 5);
}

}  // namespace
}  // namespace weft::netsim
