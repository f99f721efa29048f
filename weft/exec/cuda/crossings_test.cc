#include "weft/exec/cuda/crossings.h"

#include <map>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/failure.h"
#include "weft/exec/cuda/twin_test.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;
using testing_cuda::Given;

DevicePlan crossing_plan(const Plan& plan, std::int64_t bytes) {
  DevicePlan device = device_plan(plan, Expander(plan));
  cross_by_copies(plan, &device, bytes);
  return device;
}

const CudaCase kRing{"ring", 2048, 2048, 8, {128, 256}, 4, Route::ring};

TEST(Crossings, AgreeWithRefBitForBitRunAfterRunWhateverTheirSize) {
  std::vector<CudaCase> cases = testing_cuda::other_cases();
  for (const CudaCase& c : testing_cuda::small_cases()) cases.push_back(c);
  for (const CudaCase& c : cases) {
    if (c.ranks != 3 && c.depth == 1) continue;
    const Plan plan = testing_cuda::plan_of(c);
    const DevicePlan device = crossing_plan(plan, c.slices > 0 ? 3 * kImageBytes + 1 : kImageBytes);
    for (const int clusters : {1, 16}) EXPECT_NO_THROW(require_ending(plan, device, clusters)) << c.name;
    HostLanes twin(plan, device, 3);
    for (const std::uint32_t run : {1, 2}) {
      const Given given(c, run);
      ASSERT_EQ(twin.run(given.pointers), "") << c.name;
      if (run == 1 && c.depth == 1) continue;
      testing_cuda::expect_same(c, twin, testing_cuda::reference_of(plan, given.operands));
    }
  }
}

TEST(Crossings, RunTimeCountsHoldOnThemToo) {
  for (const testing_cuda::CountedCase& counted : testing_cuda::counted_cases()) {
    const Plan plan = testing_cuda::plan_of(counted.plan);
    const DevicePlan device = crossing_plan(plan, kCrossingBytes);
    HostLanes twin(plan, device, 2);
    const Given given(counted.plan, 1);
    const std::vector<Counts> all = counted.counts();
    ASSERT_EQ(twin.run(given.pointers, all), "") << counted.plan.name;
    testing_cuda::expect_same(counted.plan, twin, testing_cuda::reference_of(plan, given.operands, all));
  }
}

// Rows that do not count stay behind, to the byte, and those that do come in as few copies.
TEST(Crossings, AreTrimmedToTheRowsThatCount) {
  const CudaCase c{"", 4096, 2048, 8, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const DevicePlan device = crossing_plan(testing_cuda::plan_of(c), kCrossingBytes);
  const std::vector<std::int64_t> rows = {1024, 1, 130, 0};
  std::int64_t found = 0, copies = 0;
  for (const Crossing& crossing : device.crossings) {
    const auto counts = device_counts({-1, rows}, 4);
    for (const CrossingCopy& copy : crossing.copies) {
      const CrossingCopy left = trimmed(copy, counts);
      EXPECT_EQ(left.from, copy.from);
      EXPECT_EQ(trimmed(copy, {}).bytes(), copy.bytes());
      found += left.bytes(), copies += left.bytes() > 0;
    }
  }
  std::int64_t expected = 0;
  for (int from = 0; from < 4; ++from)
    for (int to = 0; to < 4; ++to) expected += from == to ? 0 : rows[at(to)] * c.n * 2;
  EXPECT_EQ(found, expected);
  EXPECT_EQ(copies, 3 * 3);  // one for each peer that has rows: 1024 rows of 4 KB are one crossing
}

TEST(Crossings, LanesStoreInTheirOwnRankAndOnlySignalsWithoutDataGoStraight) {
  for (const CudaCase& c : testing_cuda::other_cases()) {
    const Plan plan = testing_cuda::plan_of(c);
    const DevicePlan device = crossing_plan(plan, kCrossingBytes);
    const PlanTraffic expected = traffic(plan);
    std::vector<std::int64_t> bytes(device.tables.size());
    for (int r = 0; r < c.ranks; ++r) {
      for (const DevicePlace& place : device.tables[at(r)].targets) {
        EXPECT_EQ(place.rank, r) << c.name;
        if (place.matrix >= 0) {
          EXPECT_LT(place.row, device.layout[at(r)].matrices[at(place.matrix)].rows) << c.name;
        }
      }
      for (const DeviceSignal& signal : device.tables[at(r)].signals) EXPECT_EQ(signal.bytes, 0) << c.name;
    }
    for (const Crossing& crossing : device.crossings) {
      EXPECT_NE(crossing.from, crossing.to);
      EXPECT_GT(crossing.lanes, 0u);
      bytes[at(crossing.from)] += crossing.bytes();
    }
    for (int r = 0; r < c.ranks; ++r) EXPECT_GE(bytes[at(r)], expected.ranks[at(r)].bytes_to_peers) << c.name;
  }
}

// What an outbox is for: no two crossings read the same bytes, and each lies inside its rank's segment.
TEST(Crossings, HaveBytesOfTheirOwnAtBothEnds) {
  for (const CudaCase& c : testing_cuda::other_cases()) {
    const DevicePlan device = crossing_plan(testing_cuda::plan_of(c), 2 * kImageBytes);
    std::vector<std::map<std::int64_t, std::int64_t>> used(num(c.ranks));  // of a segment: begin and end of each row
    for (const Crossing& crossing : device.crossings)
      for (const CrossingCopy& copy : crossing.copies)
        for (std::int64_t row = 0; row < copy.height; ++row) {
          const std::int64_t from = copy.from + row * copy.pitch, to = copy.to + row * copy.pitch;
          ASSERT_TRUE(used[at(crossing.from)].insert({from, from + copy.width}).second) << c.name;
          ASSERT_TRUE(used[at(crossing.to)].insert({to, to + copy.width}).second) << c.name;
        }
    for (int r = 0; r < c.ranks; ++r) {
      std::int64_t end = 0;
      for (const auto& [begin, next] : used[at(r)]) {
        ASSERT_GE(begin, end) << c.name;
        end = next;
      }
      ASSERT_LE(end, device.layout[at(r)].counters) << c.name;
    }
  }
}

// Lanes are made column by column of 4 tile rows: 8 tiles are two columns, and so one rectangle of images.
TEST(Crossings, AreRectanglesInTheOrderInWhichLanesAreMade) {
  const DevicePlan device = crossing_plan(testing_cuda::plan_of(kRing), 8 * kImageBytes);
  ASSERT_EQ(device.crossings.size(), 4u * 3 * 4);  // ranks, chunks that travel, of 32 tiles each
  for (const Crossing& crossing : device.crossings) {
    EXPECT_EQ(crossing.lanes, 8u);
    ASSERT_EQ(crossing.copies.size(), 1u);
    EXPECT_EQ(crossing.copies[0].width, 2 * kImageBytes);
    EXPECT_EQ(crossing.copies[0].height, 4);
    EXPECT_EQ(crossing.copies[0].pitch, 8 * kImageBytes);
  }
}

TEST(Crossings, MergeKeepsEveryByteOnce) {
  const std::vector<CrossingCopy> tiles = {{512, 0, 64, 4, 128, 0, 1},     {576, 64, 64, 4, 128, 0, 1},
                                           {1024, 512, 128, 1, 128, 0, 1}, {9000, 640, 128, 1, 128, 0, 1},
                                           {2000, 5000, 16, 2, 64, 0, 1},  {2128, 5128, 16, 1, 64, 0, 1}};
  const auto found = merged(tiles);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].width, 128 * 5);  // four whole rows, and the fifth: one stretch
  EXPECT_EQ(found[0].height, 1);
  EXPECT_EQ(found[1].from, 9000);  // next to it there, not here
  EXPECT_EQ(found[2].height, 3);
  EXPECT_EQ(found[2].pitch, 64);
  std::int64_t before = 0, after = 0;
  for (const CrossingCopy& copy : tiles) before += copy.bytes();
  for (const CrossingCopy& copy : found) after += copy.bytes();
  EXPECT_EQ(before, after);
}

// The order of the twin is one that a queue per sender can keep: in another, a crossing may stand behind one that waits
// for it.
TEST(Crossings, AreMadeInAnOrderThatASendersQueueCanKeep) {
  CudaCase c = kRing;
  c.space = SpaceKind::all_reduce;
  const Plan plan = testing_cuda::plan_of(c);
  const DevicePlan device = crossing_plan(plan, 8 * kImageBytes);
  HostLanes twin(plan, device, 16);
  ASSERT_EQ(twin.run(), "");
  ASSERT_EQ(twin.crossed().size(), device.crossings.size());
  std::vector<int> last_chunk(4, -1);
  for (const int index : twin.crossed()) {
    const Crossing& crossing = device.crossings[at(index)];
    const Program program = Expander(plan).program(crossing.from);
    if (program.actions[at(crossing.action)].kind != ActionKind::step) continue;
    EXPECT_GE(crossing.action, last_chunk[at(crossing.from)]);  // steps in listed order
    last_chunk[at(crossing.from)] = crossing.action;
  }
}

TEST(Crossings, AMissingTileIsFoundOnTheHost) {
  const Plan plan = testing_cuda::plan_of(kRing);
  DevicePlan device = crossing_plan(plan, 8 * kImageBytes);
  for (DeviceLane& lane : device.tables[2].lanes)
    if (lane.action == 0 && lane.lane == 3) lane.signals = 0;
  EXPECT_NE(HostLanes(plan, device, 4).run(), "");
}

TEST(Crossings, BecomeASentenceWhenSomebodyWaitsTooLong) {
  const Plan plan = testing_cuda::plan_of(kRing);
  const Expander expander(plan);
  const DevicePlan device = crossing_plan(plan, 8 * kImageBytes);
  int index = 0;
  while (device.crossings[at(index)].from != 2) ++index;
  EXPECT_EQ(describe_crossing(plan, expander, device, {index, 23, 16, 10'000'000'000}),
            "rank 2 waited 10.0 s to send crossing 24 to rank 3, of step 0 of rank 2 (ring, s = 0): saw 7 of 8 tiles");
  DeviceFailure failure;
  failure.rank = 3;
  failure.waited_ns = 10'000'000'000;
  const auto& lanes = device.tables[3].lanes;
  while (lanes[at(failure.index)].action != 1) ++failure.index;
  EXPECT_EQ(describe(plan, expander, device, failure),
            "rank 3 waited 10.0 s for crossing 24 from rank 2 in step 1 of rank 3 (ring, s = 1), tile 0 [512:640, "
            "0:256]: saw 0 of 1 updates");
}

TEST(Crossings, RefuseToBringAPartOfACounter) {
  const Plan plan =
      testing_cuda::plan_of({"", 512, 256, 8, {128, 256}, 2, Route::two_shot, WeightLayout::kn, SpaceKind::all_reduce});
  DevicePlan device = device_plan(plan, Expander(plan));
  for (DeviceWait& wait : device.tables[0].waits)
    if (wait.total > 1 && wait.lag == 0) wait.at = wait.total - 1;
  EXPECT_EQ(refusal([&] { cross_by_copies(plan, &device); }).rfind("plan \"gemm all_reduce two_shot\" waits for ", 0),
            0u);
}

}  // namespace
}  // namespace weft
