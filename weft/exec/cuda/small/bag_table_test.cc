#include "weft/exec/cuda/small/bag_table.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/small/bags_test.h"
#include "weft/kernel/table/embedding_bag.h"

namespace weft {
namespace {

using testing_cuda::BagCase;
using testing_cuda::BagInputs;

// The tables walked on the host: lanes of all ranks, then crossings whose lanes have all been made.
class HostBags {
 public:
  HostBags(const BagCase& c, const BagPlan& plan) : case_(c), plan_(plan) {
    for (const DeviceLayout& layout : plan.device.layout) {
      segments_.emplace_back(num(layout.bytes));
      counters.emplace_back(num(layout.num_counters));
    }
  }

  void run(const std::vector<BagInputs>& inputs) {
    ++runs_;
    for (int r = 0; r < case_.ranks; ++r)
      for (const BagLane& lane : plan_.lanes[at(r)]) make(inputs[at(r)], lane);
    for (const Crossing& crossing : plan_.device.crossings) cross(crossing);
  }

  std::vector<float> output(int rank) const {
    std::vector<float> out(num(plan_.rows[at(rank)] * plan_.cols[at(rank)]));
    std::memcpy(out.data(), segments_[at(rank)].data(), out.size() * 4);
    return out;
  }

  std::vector<std::vector<std::uint32_t>> counters;

 private:
  void make(const BagInputs& in, const BagLane& lane) {
    const std::size_t t = at(lane.table);
    std::vector<float> made(num(lane.rows * case_.dim));
    embedding_bag({in.tables[t].data(), case_.rows, case_.dim}, {in.indices[t].data(), in.offsets[t].data()},
                  case_.pooling, lane.sample, lane.sample + lane.rows, made.data(), case_.dim);
    for (std::int64_t row = 0; row < lane.rows; ++row)
      std::memcpy(segments_[at(lane.rank)].data() + lane.offset + row * lane.pitch, made.data() + row * case_.dim,
                  num(case_.dim * 4));
    if (lane.signal_rank >= 0) ++counters[at(lane.signal_rank)][lane.counter];
  }

  void cross(const Crossing& c) {
    EXPECT_EQ(counters[at(c.from)][c.counter], runs_ * c.lanes);
    for (const CrossingCopy& copy : c.copies)
      for (std::int64_t row = 0; row < copy.height; ++row)
        std::memcpy(segments_[at(c.to)].data() + copy.to + row * copy.pitch,
                    segments_[at(c.from)].data() + copy.from + row * copy.pitch, num(copy.width));
    counters[at(c.to)][c.arrived] = runs_;
  }

  BagCase case_;
  const BagPlan& plan_;
  std::vector<std::vector<std::byte>> segments_;
  std::uint32_t runs_ = 0;
};

TEST(BagTable, AgreesWithRefStraightAndThroughOutboxes) {
  for (const BagCase& c : testing_cuda::bag_cases())
    for (const CudaLink link : {CudaLink::hbm, CudaLink::pcie}) {
      const Plan plan = testing_cuda::bag_plan_of(c);
      const BagPlan bags = bag_plan(plan, Expander(plan), link, 64 * 1024);
      HostBags twin(c, bags);
      for (const std::uint64_t run : {1, 2}) {
        std::vector<BagInputs> inputs;
        for (int r = 0; r < c.ranks; ++r) inputs.emplace_back(c, r, run);
        twin.run(inputs);
        const auto expected = testing_cuda::bag_reference(plan, inputs);
        for (int r = 0; r < c.ranks; ++r) {
          const auto found = twin.output(r);
          ASSERT_EQ(found.size(), expected[at(r)].size());
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_FLOAT_EQ(found[i], expected[at(r)][i]) << c.ranks << " ranks, rank " << r << ", element " << i;
        }
      }
    }
}

TEST(BagTable, WhatGoesToOthersIsMadeFirstAndSignalledOncePerLane) {
  const BagCase c{2, 64, 512, 4, 4};
  const Plan plan = testing_cuda::bag_plan_of(c);
  const Expander expander(plan);
  const BagPlan bags = bag_plan(plan, expander);
  HostBags twin(c, bags);
  std::vector<BagInputs> inputs;
  for (int r = 0; r < 4; ++r) inputs.emplace_back(c, r, 1);
  twin.run(inputs);
  for (int r = 0; r < 4; ++r) {
    const auto& lanes = bags.lanes[at(r)];
    ASSERT_EQ(lanes.size(), 2u * 512 / 64);
    for (std::size_t i = 0; i < lanes.size(); ++i) EXPECT_EQ(lanes[i].rank == r, i >= lanes.size() * 3 / 4);
    for (const BagLane& lane : lanes) {
      EXPECT_EQ(lane.signal_rank >= 0, lane.rank != r);
      if (lane.signal_rank < 0) continue;
      EXPECT_EQ(twin.counters[at(lane.signal_rank)][lane.counter],
                expander.counter_total(static_cast<int>(lane.counter), lane.signal_rank));
    }
  }
}

// Ranks with a launch each, lane by lane in a random order of ranks: each opens its output, waits for others to open
// theirs, and ends when all that is owed to it has come.
class MeetingRanks {
 public:
  MeetingRanks(const BagPlan& plan, std::uint64_t seed) : plan_(plan), ranks_(plan.lanes.size()), random_(seed) {
    for (const BagMeetings& meetings : plan.meetings) counters_.emplace_back(meetings.totals.size());
  }

  // Whether all ranks end that many runs.
  bool end(std::uint32_t runs) {
    for (int stuck = 0; stuck < 1000;) {
      Rank& rank = ranks_[random_() % ranks_.size()];
      if (rank.run < runs && move(&rank)) {
        stuck = 0;
        continue;
      }
      ++stuck;
    }
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.run == runs; });
  }

 private:
  struct Rank {
    std::uint32_t run = 0;
    std::size_t next = 0;
    bool open = false;
  };

  bool is_met(std::size_t r, const DeviceWait& wait) const {
    return counters_[r][wait.counter] >= ranks_[r].run * wait.total + wait.at;
  }

  bool move(Rank* rank) {
    const auto r = num(rank - ranks_.data());
    const BagMeetings& meetings = plan_.meetings[r];
    if (!std::exchange(rank->open, true)) {
      for (const DeviceSignal& open : meetings.opens) ++counters_[at(open.rank)][open.counter];
    } else if (rank->next < plan_.lanes[r].size()) {
      const BagLane& lane = plan_.lanes[r][rank->next];
      const auto open = static_cast<std::uint32_t>(lane.open);
      if (lane.open >= 0 && !is_met(r, {open, 1, meetings.totals[open], 0})) return false;
      if (lane.signal_rank >= 0) ++counters_[at(lane.signal_rank)][lane.counter];
      ++rank->next;
    } else {
      for (const DeviceWait& wait : meetings.arrivals)
        if (!is_met(r, wait)) return false;
      *rank = {rank->run + 1, 0, false};
    }
    return true;
  }

  const BagPlan& plan_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<std::uint32_t>> counters_;
  std::mt19937_64 random_;
};

TEST(BagTable, RanksWithALaunchEachMeetAndEnd) {
  for (const BagCase& c : testing_cuda::bag_cases()) {
    const Plan plan = testing_cuda::bag_plan_of(c);
    const BagPlan bags = bag_plan(plan, Expander(plan));
    for (const std::uint64_t seed : {1, 2, 3, 4, 5})
      EXPECT_TRUE(MeetingRanks(bags, seed).end(3)) << c.ranks << " ranks, batch " << c.batch;
    if (c.ranks == 1) continue;
    for (int r = 0; r < c.ranks; ++r)
      for (const BagLane& lane : bags.lanes[at(r)]) EXPECT_EQ(lane.open >= 0, lane.rank != r);
  }
}

TEST(BagTable, OverPcieLanesStayAtHomeAndAllTablesOfASampleTravelTogether) {
  const BagCase c{4, 128, 2048, 4, 1};
  const Plan plan = testing_cuda::bag_plan_of(c);
  const BagPlan bags = bag_plan(plan, Expander(plan), CudaLink::pcie, 512 * 1024);
  for (int r = 0; r < 4; ++r)
    for (const BagLane& lane : bags.lanes[at(r)]) EXPECT_EQ(lane.rank, r);
  // 1 MB for each of three peers: 512 samples in lanes of 64, four tables each, of 128 KB in all.
  constexpr std::int64_t kSamples[] = {64, 64, 128, 256, 256, 256, 256, 256};
  std::vector<std::size_t> sent(4);
  for (const Crossing& crossing : bags.device.crossings) {
    const std::size_t place = sent[at(crossing.from)]++;
    ASSERT_LT(place, std::size(kSamples));
    ASSERT_EQ(crossing.copies.size(), 1u);
    EXPECT_EQ(crossing.copies[0].width, 4 * 128 * 4);
    EXPECT_EQ(crossing.copies[0].height, kSamples[place]) << "crossing " << place;
    EXPECT_EQ(crossing.lanes, kSamples[place] / 64 * 4);
  }
  for (const std::size_t count : sent) EXPECT_EQ(count, std::size(kSamples));
}

TEST(BagTable, RefusesOtherPlansAndSaysWhatToDo) {
  const auto refused_bags = [](const Plan& plan) { return refusal([&] { bag_plan(plan, Expander(plan)); }); };
  EXPECT_EQ(refused_bags(testing_cuda::bag_plan_of({2, 6, 64, 2, 1})),
            "rows of tables have 6 values; a GPU takes multiples of 4");
  const Plan staged = testing_cuda::bag_plan_of({2, 8, 64, 2, 1}, Route::staged);
  EXPECT_EQ(
      refused_bags(staged),
      "plan \"" + staged.name + "\" is neither kept nor sent straight; bags on a GPU are: use all_to_all by direct");
  const Plan gemms = build(gemm({.m = 64, .n = 64, .k = 64}), keep());
  EXPECT_EQ(refused_bags(gemms), "plan \"gemm keep\" is not one embedding_bag; use the executor of gemms for others");
}

}  // namespace
}  // namespace weft
