#include "tests/seeded_routes.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/weft.h"

#include "tests/cases.h"
#include "tests/on_one_core.h"
#include "tests/seeded_scheduler.h"

namespace weft::testing {
namespace {

constexpr int kRunsPerSeed = 2;  // per seed, back to back, with other inputs each

using Outputs = std::vector<std::vector<std::vector<float>>>;  // [run][rank]

struct Seeds {
  std::uint64_t first, last;
};

class RouteRuns {
 public:
  RouteRuns(const Case& c, int num_ranks) : case_(c), num_ranks_(num_ranks) {
    for (int run = 0; run < kRunsPerSeed; ++run) {
      data_.emplace_back();
      for (int r = 0; r < num_ranks; ++r) data_.back().push_back(make_data(c.producer, r, 10 + run));
    }
  }

  // Under the plain executor, whose plan is proved.
  void run_plain() {
    expected_.assign(kRunsPerSeed, std::vector<std::vector<float>>(num(num_ranks_)));
    World::local(num_ranks_,
                 [&](World& world) {
                   Op op = compile(world, case_);
                   for (int run = 0; run < kRunsPerSeed; ++run) {
                     const auto y = output_of(op, run, world.rank());
                     expected_[at(run)][at(world.rank())].assign(y.begin(), y.end());
                   }
                 },
                 {.threads = 1});
  }

  void run_seeds(Fabric fabric, Seeds seeds, SeedsSeen* seen) {
    SeededScheduler scheduler(num_ranks_, seeds.first, fabric);
    std::atomic<std::uint64_t> wrong{0}, under_way{seeds.first};
    WorldOptions options{.threads = 1, .hooks = &scheduler, .prove = false};
    options.link = Link{.bytes_per_s = 1e9, .latency_s = 1e-6, .fabric = fabric};
    try {
      World::local(
          num_ranks_,
          [&](World& world) {
            Op op = compile(world, case_);
            for (std::uint64_t seed = seeds.first; seed <= seeds.last && wrong == 0; ++seed) {
              if (world.rank() == 0) scheduler.begin_again(seed), under_way = seed;
              world.barrier();
              if (!run_seed(op, world.rank(), &scheduler)) wrong = seed;
              world.barrier();  // all have left, and all see what is wrong
            }
          },
          options);
    } catch (const std::exception& stuck) {
      ADD_FAILURE() << case_.name << ": WEFT_SEED=" << under_way << " replays: " << stuck.what();
    }
    EXPECT_EQ(wrong, 0u) << case_.name << " gives other bits: WEFT_SEED=" << wrong << " replays";
    seen->events += scheduler.events();
    seen->refusals += scheduler.refusals();
    ++seen->cells;
  }

 private:
  std::span<const float> output_of(Op& op, int run, int rank) {
    op.run(data_[at(run)][at(rank)].inputs(case_.producer));
    return op.output().values();
  }

  bool run_seed(Op& op, int rank, SeededScheduler* scheduler) {
    bool same = true;
    scheduler->enter(rank);
    for (int run = 0; run < kRunsPerSeed; ++run) {
      const auto y = output_of(op, run, rank);
      const std::vector<float>& want = expected_[at(run)][at(rank)];
      same = same && y.size() == want.size() && std::memcmp(y.data(), want.data(), y.size_bytes()) == 0;
    }
    scheduler->leave(rank);
    return same;
  }

  const Case& case_;
  const int num_ranks_;
  std::vector<std::vector<Data>> data_;  // [run][rank]
  Outputs expected_;
};

}  // namespace

SeedsSeen run_every_route(int num_ranks, int seeds) {
  const char* replay = std::getenv("WEFT_SEED");
  Seeds range{1, num(seeds)};
  if (replay != nullptr) range.first = range.last = std::strtoull(replay, nullptr, 10);
  SeedsSeen seen;
  const OnOneCore pinned;
  for (const Case& c : route_cases(num_ranks)) {
    if (c.space.kind == SpaceKind::keep) continue;  // plans of one rank each
    RouteRuns runs(c, num_ranks);
    runs.run_plain();
    for (const Fabric fabric : {Fabric::pairs, Fabric::nic}) runs.run_seeds(fabric, range, &seen);
    if (::testing::Test::HasFailure()) break;
  }
  return seen;
}

}  // namespace weft::testing
