// Embedding bags with their all_to_all as tables for a kernel (bags.cu): what an Expander says of each rank, lane by
// lane, in the plan's order, in which the rows that go to other ranks come first. A lane is up to 64 samples of one
// table. No CUDA header is needed here.
//
// Where all ranks are of one launch, nobody in the kernel waits: outputs are complete when the run has ended, and open
// for the next when that is launched. So the plan's waits are met by the order of launches; its signals are raised all
// the same, and tests count them. Where a rank has a launch of its own, it opens its output, its lanes wait for those
// of others to be open, and it ends when all that is owed to it has come: BagMeetings.
// Over pcie a lane for another rank stores into an outbox, and its signal arms a crossing (crossings.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/exec/cuda/lane_table.h"
#include "weft/plan/program.h"

namespace weft {

inline constexpr int kBagRows = 64;  // the most that a CTA takes at a time

struct BagLane {
  std::int32_t table, sample, rows;  // samples from `sample` on, of the rank's table
  std::int32_t rank;                 // in whose segment they land
  std::int64_t offset;               // in bytes
  std::int32_t pitch;                // from sample to sample, in bytes
  std::int32_t signal_rank;          // -1: none
  std::uint32_t counter;             // of that rank
  std::int32_t open;                 // counter of the own rank that says where it may be written; -1: anywhere
  std::int32_t action;
};

// What a rank that is launched alone does beside its lanes. A wait in run e is for e * total + at.
struct BagMeetings {
  std::vector<DeviceSignal> opens;    // raised when its run begins
  std::vector<DeviceWait> arrivals;   // met when its output is complete
  std::vector<std::uint32_t> totals;  // of its counters in a run
};

struct BagPlan {
  int dim = 0;
  Pooling pooling = Pooling::sum;
  std::vector<std::vector<BagLane>> lanes;  // of each rank
  std::vector<BagMeetings> meetings;        // of each rank
  std::vector<int> tables;                  // of each rank
  std::vector<std::int64_t> rows, cols;     // of each rank's output, which its segment begins with; f32
  DevicePlan device;                        // layouts and crossings alone
};

// Throws bad_input, with the remedy, where the plan is not one embedding_bag that is kept or goes straight.
BagPlan bag_plan(const Plan& plan, const Expander& expander, CudaLink link = CudaLink::hbm,
                 std::int64_t crossing_bytes = kCrossingBytes);

// "rank 1 waited 10.0 s for got[0] from rank 0: saw 3 of 8 updates", of a failure whose `index` is the counter and
// `wait` how many updates were awaited. Or, where its `trigger` is kWildIndex, "table 2 of rank 1 has no row 700": then
// `index` is the table and `waited_ns` the row; of kWildOffset the offset.
inline constexpr int kWildIndex = 2, kWildOffset = 3;
std::string describe_bags(const BagPlan& plan, const Expander& expander, const DeviceFailure& failure);

}  // namespace weft
