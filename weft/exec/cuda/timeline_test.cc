// A timeline of times that are made by hand; cuda_trace_test.cc has those of runs.
#include "weft/exec/cuda/timeline.h"

#include <gtest/gtest.h>

#include "weft/base/trace.h"
#include "weft/exec/cuda/plans_test.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;

class DeviceTimeline : public ::testing::Test {
 protected:
  // One cluster per rank, and nothing that was done.
  DeviceTimeline() {
    times_.run = 7, times_.clusters_per_rank = 1;
    for (const LaneTable& table : device_.tables)
      times_.ranks.push_back({std::vector<LaneTimes>(table.lanes.size() + table.triggers.size()),
                              std::vector<std::uint64_t>(table.waits.size())});
  }

  // The first lane of a rank that waits for what another made in the same run, and which of its waits that is.
  std::pair<std::size_t, std::size_t> lane_that_waits(int rank) const {
    const LaneTable& table = device_.tables[at(rank)];
    for (std::size_t i = 0; i < table.lanes.size(); ++i)
      for (int w = table.lanes[i].first_wait; w < table.lanes[i].first_wait + table.lanes[i].waits; ++w)
        if (table.waits[at(w)].lag == 0) return {i, num(w)};
    ADD_FAILURE() << "nobody waits";
    return {};
  }

  Plan plan_ = testing_cuda::plan_of(CudaCase{"ring", 1024, 512, 16, {128, 256}, 2, Route::ring});
  DevicePlan device_ = device_plan(plan_, Expander(plan_));
  DeviceTimes times_;
};

TEST_F(DeviceTimeline, SharesCountATimeOnceInWhichTwoWarpsWait) {
  times_.ranks[0].lanes[0] = {.asked = 1000, .asked_last = 2000, .stores = 2500, .told = 3000};
  const auto [lane, wait] = lane_that_waits(1);
  times_.ranks[1].lanes[lane] = {.rows = 1500, .rows_met = 2500, .waits = 1000};
  times_.ranks[1].met[wait] = 2000;
  const TimelineShares shares = shares_of(device_, times_);
  EXPECT_DOUBLE_EQ(shares.run_us, 2);
  EXPECT_DOUBLE_EQ(shares.waited, 1500.0 / (4 * 2000));  // of four CTAs
  EXPECT_DOUBLE_EQ(shares.before, 0.75);                 // three never came to a tile
  EXPECT_DOUBLE_EQ(shares.after, 0);
  times_.ranks[0].lanes[1] = {.asked = 1500, .asked_last = 1600, .stores = 1700, .told = 2000};
  EXPECT_DOUBLE_EQ(shares_of(device_, times_).before, (500.0 + 2 * 2000) / (4 * 2000));
  EXPECT_DOUBLE_EQ(shares_of(device_, times_).after, 1000.0 / (4 * 2000));
}

TEST_F(DeviceTimeline, AWaitNamesItsCounterAndWhoRaisesIt) {
  const auto [lane, wait] = lane_that_waits(1);
  times_.ranks[0].lanes[0] = {.asked = 1000, .asked_last = 2000, .stores = 2500, .told = 3000};
  times_.ranks[1].lanes[lane].waits = 2000;
  times_.ranks[1].met[wait] = 3500;
  TraceText text;
  add_slices(plan_, device_, times_, &text);
  const std::string name = Expander(plan_).counter_name(static_cast<int>(device_.tables[1].waits[wait].counter), 1);
  const std::string head = R"("name":"wait: ring","cat":"waited","pid":1,)",
                    args = "\"for\":\"" + name + "\",\"from\":\"0\"}";
  const std::size_t found = text.events().find(head);
  ASSERT_NE(found, std::string::npos) << text.events();
  const std::string line = text.events().substr(found, text.events().find('\n', found) - found);
  EXPECT_NE(line.find(R"("ts":1.000,"dur":1.500)"), std::string::npos) << line;
  EXPECT_NE(line.find(args), std::string::npos) << line;
  EXPECT_NE(line.find("\"run\":7"), std::string::npos) << line;
  EXPECT_NE(text.events().find(R"("name":"make ring","cat":"made","pid":0,"tid":0,"ts":0.000,"dur":1.000)"),
            std::string::npos);
}

TEST_F(DeviceTimeline, ARunWithoutTimesHasNoShares) { EXPECT_EQ(shares_of(device_, times_).run_us, 0); }

}  // namespace
}  // namespace weft
