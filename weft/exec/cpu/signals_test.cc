// Which counters a rank may raise by plain stores, and that both ways of raising them count alike, also across 2^32.
#include "weft/exec/cpu/signals.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/plan/plans_test.h"
#include "weft/transport/local/bell.h"

namespace weft {
namespace {

// All ranks' counters here.
struct Counted {
  explicit Counted(const Plan& plan) : expander(plan), bells(num(plan.num_ranks)) {
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      memory.layouts.push_back(layout_of(plan, expander, rank));
      segments.emplace_back(memory.layouts.back().bytes / sizeof(std::uint64_t) + 1);
      memory.base.push_back(reinterpret_cast<std::byte*>(segments.back().data()));
      memory.bells.push_back(&bells[at(rank)]);
      memory.world_rank.push_back(rank);
    }
  }
  std::uint32_t value(int rank, std::int64_t counter) {
    return memory.counter(rank, counter).load(std::memory_order_relaxed);
  }
  // Every signal of every rank's program: f(from, to, counter).
  template <typename F>
  void for_each_signal(F&& f) const {
    for (int rank = 0; rank < expander.num_ranks(); ++rank) {
      const Program program = expander.program(rank);
      for (const Action& action : program.actions)
        for (const Signal& signal : program.signals_of(action))
          for (std::int64_t lane = 0; lane < action.lanes; ++lane)
            f(rank, signal.rank, signal.counter + (signal.per > 0 ? lane / signal.per : 0));
    }
  }
  void run_all(std::vector<Signals>* of_ranks) const {
    for_each_signal([&](int from, int to, std::int64_t counter) { (*of_ranks)[at(from)].raise(to, counter); });
  }
  // Of each rank's counters: its total, or 0 where it belongs to a tile that an uneven cut has not.
  std::vector<std::vector<std::uint32_t>> growth() const {
    std::vector<std::vector<std::uint32_t>> out;
    for (int rank = 0; rank < expander.num_ranks(); ++rank) out.emplace_back(num(expander.num_counters(rank)));
    for_each_signal([&](int, int to, std::int64_t counter) { ++out[at(to)][at(counter)]; });
    return out;
  }
  std::vector<Signals> signals(int threads, Signalling how) {
    std::vector<Signals> out;
    for (int rank = 0; rank < expander.num_ranks(); ++rank)
      out.emplace_back(expander, expander.program(rank), memory, threads, how);
    return out;
  }

  Expander expander;
  std::vector<std::vector<std::uint64_t>> segments;
  std::vector<Bell> bells;
  Memory memory;
};

TEST(Signals, EveryCounterGrowsByItsTotalEitherWay) {
  for (const Plan& plan : testing_plans::all_plans(3))
    for (const Signalling how : {Signalling::fenced, Signalling::quiet})
      for (const int threads : {1, 2}) {
        Counted all(plan);
        const auto growth = all.growth();
        std::vector<Signals> signals = all.signals(threads, how);
        for (std::uint32_t run = 1; run <= 3; ++run) {
          all.run_all(&signals);
          for (int rank = 0; rank < plan.num_ranks; ++rank)
            for (std::int64_t c = 0; c < all.expander.num_counters(rank); ++c) {
              const std::uint32_t total = all.expander.counter_total(static_cast<int>(c), rank);
              ASSERT_TRUE(growth[at(rank)][at(c)] == total || growth[at(rank)][at(c)] == 0) << plan.name;
              ASSERT_EQ(all.value(rank, c), run * growth[at(rank)][at(c)])
                  << plan.name << ", counter " << all.expander.counter_name(static_cast<int>(c), rank);
            }
        }
      }
}

// A rank that stores the next value must know where counting stands.
TEST(Signals, CountingGoesOnFromAnyRunAndAcross32Bits) {
  const std::uint32_t begin = 4294967295u;  // the run before 2^32
  for (const Plan& plan : testing_plans::all_plans(2)) {
    Counted all(plan);
    const auto growth = all.growth();
    std::vector<Signals> signals = all.signals(1, Signalling::quiet);
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      signals[at(rank)].begin_at(all.expander, begin);
      for (std::int64_t c = 0; c < all.expander.num_counters(rank); ++c)
        all.memory.counter(rank, c).store(begin * all.expander.counter_total(static_cast<int>(c), rank));
    }
    all.run_all(&signals);
    all.run_all(&signals);
    for (int rank = 0; rank < plan.num_ranks; ++rank)
      for (std::int64_t c = 0; c < all.expander.num_counters(rank); ++c)
        ASSERT_EQ(all.value(rank, c),
                  begin * all.expander.counter_total(static_cast<int>(c), rank) + 2 * growth[at(rank)][at(c)])
            << plan.name;
  }
}

}  // namespace
}  // namespace weft
