#include "weft/study/rounds.h"

#include <map>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/study/trial.h"
#include "weft/world/world.h"

namespace weft {
namespace {

void nap(int us) {
  const timespec time{0, us * 1000L};
  nanosleep(&time, nullptr);
}

TEST(Rounds, EveryoneHasOneTurnPerRoundAndOneOfThemTwo) {
  for (const TurnOrder order : {TurnOrder::rotated, TurnOrder::listed})
    for (std::size_t twice = 0; twice < 4; ++twice) {
      std::map<std::size_t, int> begins;
      for (std::uint64_t round = 0; round < 10; ++round) {
        const auto places = turn_places(4, twice, round, order);
        ASSERT_EQ(places.size(), 5u);
        std::map<std::size_t, int> first, second;
        for (const TurnPlace& place : places) ++(place.again ? second : first)[place.contestant];
        for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(first[c], 1);
        EXPECT_EQ(second, (std::map<std::size_t, int>{{twice, 1}}));
        ++begins[places.front().contestant];
      }
      EXPECT_EQ(begins.size(), order == TurnOrder::rotated ? 4u : twice == 0 ? 1u : 2u);
    }
}

TEST(Rounds, TheTwoTurnsOfOneContestantChangePlaces) {
  for (const TurnOrder order : {TurnOrder::rotated, TurnOrder::listed}) {
    int again_first = 0;
    for (std::uint64_t round = 0; round < 20; ++round)
      for (const TurnPlace& place : turn_places(4, 0, round, order))
        if (place.contestant == 0) {
          again_first += place.again;
          break;
        }
    EXPECT_EQ(again_first, 10);
  }
}

TEST(Rounds, ListedOrderKeepsTheFirstFirst) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    std::vector<std::size_t> order;
    for (const TurnPlace& place : turn_places(3, {}, round, TurnOrder::listed)) order.push_back(place.contestant);
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2}));
  }
}

TEST(Rounds, MediansAreThoseOfTheSlowestRank) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    int refreshed = 0, runs = 0;
    Rounds rounds(clock,
                  {{"slow on rank 1", [&] { nap(world.rank() == 1 ? 3000 : 10); }},
                   {"quick", [&] { ++runs; }, {}, [&](std::uint64_t round) { return 10 * world.rank() + int(round); }}},
                  {.rounds = 3, .twice = "quick", .refresh = [&](std::uint64_t) { ++refreshed; }});
    ASSERT_TRUE(rounds.run());
    EXPECT_EQ(rounds.count(), 3);
    EXPECT_EQ(refreshed, 4) << "one round warms up";
    EXPECT_EQ(runs, 8);
    EXPECT_EQ(rounds.runs_of("quick"), 8);
    EXPECT_EQ(rounds.turns("quick").size(), 3u);
    EXPECT_GE(*rounds.median_us("slow on rank 1"), 3000);
    EXPECT_LT(*rounds.median_us("quick"), *rounds.median_us("slow on rank 1"));
    EXPECT_FALSE(rounds.median_us("nobody"));
    EXPECT_EQ(rounds.turns("quick").back().said, (std::vector<std::int64_t>{3, 13}));
    EXPECT_EQ(clock.worst_of_ranks(runs + world.rank()), 9);
    EXPECT_EQ(clock.sum_of_ranks(1 + world.rank()), 3);
    ASSERT_TRUE(rounds.more(2));
    EXPECT_EQ(rounds.turns("quick").size(), 5u);
  });
}

TEST(Rounds, StopOnEveryRankWhereTheJudgeSaysSo) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    Rounds rounds(clock,
                  {{"wrong in round 2",
                    [] {},
                    {},
                    [&](std::uint64_t round) -> std::int64_t { return round == 2 && world.rank() == 1; }}},
                  {.rounds = 5, .judge = [](const Contestant&, std::uint64_t, const TurnTime& time) {
                     return time.said == std::vector<std::int64_t>{0, 0};
                   }});
    EXPECT_FALSE(rounds.run());
    EXPECT_EQ(rounds.count(), 1);
  });
}

TEST(Rounds, KeepToABudgetButMakeTheLeast) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    int last = 0;
    Rounds rounds(clock, {{"nap", [] { nap(2000); }}},
                  {.rounds = 50, .budget_s = 1e-3, .progress = [&](int done, int of) { last = of - done; }});
    ASSERT_TRUE(rounds.run());
    EXPECT_EQ(rounds.count(), Rounds::kLeastRounds);
    EXPECT_EQ(last, 0);
  });
}

TEST(Rounds, UnknownNameForTwoTurnsIsRefused) {
  World::local(1, [](World& world) {
    CommonClock clock(world);
    EXPECT_THROW(Rounds(clock, {{"a", [] {}}}, {.twice = "b"}), Error);
  });
}

TEST(Trial, TheQuickestOnTheSlowestRankIsPicked) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    const auto picked =
        pick_fastest(clock, {[&] { nap(world.rank() == 0 ? 100 : 4000); }, [] { nap(1500); }, [] { nap(6000); }}, 2)
            .index;
    EXPECT_EQ(picked, 1u);
  });
}

}  // namespace
}  // namespace weft
