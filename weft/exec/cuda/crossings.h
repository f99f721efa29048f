// Tables for ranks that cannot write into one another's memory: what a lane would have stored there it stores into an
// outbox of its own rank, and copy engines take it from there to the peer, through the host (link `pcie`).
//
//   outbox     a mirror, in the sender's segment, of what it writes at a peer: images at the same distances, and
//              matrices of the same width, one peer's rows below the other's. So a lane only gets another address
//   crossing   tiles of one action that travel to one peer together, about as many bytes as asked for. Lanes raise its
//              counter on the sender, which arms the copies; when they have ended, its second counter, on the receiver,
//              is set to the number of the run
//   copy       a rectangle of bytes: so many rows of the same width at the same distance, here and there. Rows beyond a
//              run's count stay behind, where the host knows the counts
//
// Who waited for a counter that such lanes raised waits for the crossings instead. Signals that cover no data go
// straight: they are four bytes, and free an inbox or open an output.
//
// No CUDA header is needed here: HostLanes makes crossings too, and copy_engines.h enqueues them on a GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/exec/cuda/device_lane.h"

namespace weft {

struct DevicePlan;
struct Plan;

struct CrossingCopy {
  std::int64_t from = 0, to = 0;  // bytes in the two ranks' segments
  std::int64_t width = 0, height = 1, pitch = 0;
  std::int64_t copy_bytes = 0;  // run e uses what lies e % depth * copy_bytes further
  int depth = 1;
  int limit = -1;               // which of the sender's counts shortens it; -1: none
  std::int64_t limit_from = 0;  // rows that count: counts[limit] - limit_from

  std::int64_t bytes() const { return width * height; }
};

struct Crossing {
  int from = 0, to = 0;       // ranks
  std::uint32_t counter = 0;  // of `from`: grows by `lanes` a run
  std::uint32_t lanes = 0;
  std::uint32_t arrived = 0;  // of `to`: e + 1 once what run e sent is there
  std::int32_t action = 0;    // of the sender's Program
  std::vector<CrossingCopy> copies;

  std::int64_t bytes() const;
};

inline constexpr std::int64_t kCrossingBytes = std::int64_t{4} << 20;  // fewer: engines start too often; more: too late

// Changes tables, layouts and counters of a plan whose ranks share memory. Throws bad_input where somebody waits for a
// part of a counter that travels.
void cross_by_copies(const Plan& plan, DevicePlan* device, std::int64_t crossing_bytes = kCrossingBytes);

// As few rectangles as were found for the same bytes; for tests.
std::vector<CrossingCopy> merged(std::vector<CrossingCopy> copies);

// What of it a run moves whose sender has these counts (device_counts); none given: all of it. Rows without a gap are
// one row.
CrossingCopy trimmed(CrossingCopy copy, std::span<const std::int32_t> counts);

}  // namespace weft
