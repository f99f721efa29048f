// Windows over PCIe: an unmodified gemm writes its output through a plain pointer, panel by panel of rows, and behind
// each panel a queue raises a counter, which arms the copy engines that take those rows to the rank they are for
// (copy_engines.h) while the next panel is multiplied. For the plans of window_map.h, which only store; rows need no
// whole pages here. The matrix is its own outbox: nothing is copied within the GPU but the rows that a rank keeps.
//
// Order. A panel is for one receiver. A rank makes one for each peer in turn, from rank r + 1 on: so every link has
// something early, and no two ranks begin with the same receiver. The rows that it keeps come last, in one piece: the
// link still carries what was made before. With N ranks, and a transfer as long as the product, the peers' rows are
// made in (N - 1) / N of that time; so from the first panel on the link never waits, and what the transfer adds to
// itself is that panel's product and the last crossing's way down. All panels are therefore as high as each other: a
// lower first one begins to send earlier, and leaves the link idle behind it unless its product is shorter in
// proportion, which below a wave of tiles it is not.
//
// tracked_plan() reads the plan and needs no GPU; TrackedRows has the memory and the queues.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/exec/cuda/failure.h"
#include "weft/exec/cuda/lane_table.h"
#include "weft/plan/program.h"

namespace weft {

struct RowPanel {
  int to = 0;  // the rank that it is for
  std::int64_t row = 0, rows = 0;
  int first_crossing = 0, crossings = 0;
};

struct TrackedPlan {
  std::vector<std::vector<RowPanel>> panels;  // of each rank, in the order in which to make them
  // A rank's segment has two matrices, what it makes and its output. Counter i of a rank is that of its panel i. All
  // crossings of a panel wait for it; each has at most about so many bytes, so that the way up and down overlap.
  DevicePlan device;
};

// `panels`: a panel has at most m / panels rows, rounded up to whole tiles; but rows that stay are one. Throws
// bad_input, with the remedy, where the plan does more than store whole rows.
TrackedPlan tracked_plan(const Plan& plan, const Expander& expander, int panels, std::int64_t crossing_bytes);

// "rank 2 waited 0.3 s to send its panel 1 of 4, rows 128 to 255, to rank 3: nobody has made it".
std::string describe_panel(const TrackedPlan& tracked, const CrossingFailure& failure);

struct TrackedOptions {
  int panels = 16;
  std::int64_t crossing_bytes = kCrossingBytes;
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of a panel, when nothing has moved for so long
};

// A run: every panel is written and made, then join(). Runs stand in one queue, or in queues that follow one another:
// rows may be written again, and outputs change, behind the join of the run before.
class TrackedRows {
 public:
  // Throws bad_input as above, or where there is no GPU.
  explicit TrackedRows(const Plan& plan, const TrackedOptions& options = {});
  ~TrackedRows();
  TrackedRows(const TrackedRows&) = delete;
  TrackedRows& operator=(const TrackedRows&) = delete;

  const std::vector<RowPanel>& panels(int rank) const;
  std::byte* rows(int rank) const;          // (m, n) of what the rank makes, row-major
  const std::byte* output(int rank) const;  // "y"

  // What stands in `queue` makes the panel; its rows leave when that has ended. In the order of panels() no queue waits
  // for anything that is enqueued later, so queues may share a connection of the GPU. In another order some do, and
  // until it is there nothing may be allotted on the GPU and no kernel be loaded. Not in a graph: bad_input.
  void made(int rank, int panel, void* queue);
  // For a kernel that raises it itself, by 1 a run, released at system scope behind its stores; instead of made().
  std::uint32_t* counter(int rank, int panel) const;
  // Ends a run: what is enqueued in `queue` from now on waits for all its copies, also of panels not yet made.
  // Throws deadline where an earlier run has failed.
  void join(void* queue);
  // Waits for the runs that were joined. Throws deadline, naming rank and panel, where one was not made in time: what
  // was copied is void, and this of no use any more.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
