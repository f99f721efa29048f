// A plan as flat tables that a kernel can walk: what an Expander says of each rank, tile by tile, with the addresses in
// the ranks' device memory. No CUDA header is needed here, so tables are made and checked on any machine
// (host_lanes.h); fused_gemm.cuh walks them on a GPU.
//
//   lane      one tile of a step. Lanes come in pairs, two tiles of one column of the same action, one below the other,
//             which a cluster of two CTAs makes together. An action with an odd number of tile rows ends in lanes that
//             make a tile again and keep nothing of it
//   trigger   one lane of a trigger: waits and signals
//   place     where a tile lies: an image (below) in a packed buffer, or rows of an output
//   image     a tile as the kernel keeps it in shared memory, 64 KB whatever its rows and columns: a strip of 64
//             columns after the other, each of 128 rows of 128 bytes whose 16-byte parts are swizzled. It is the
//             executor's own: a plan only says which tile goes where
//
// Order. Lanes of an action are permuted: pairs for the cluster, and groups of pairs that share columns of w in L2. A
// plan promises something for lanes in listed order only, so an executor asks HostLanes whether its order ends.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cuda/device_lane.h"
#include "weft/plan/program.h"

namespace weft {

struct LaneTable {
  std::vector<DeviceLane> lanes;  // 2t and 2t + 1 are a pair
  std::vector<DeviceLane> triggers;
  std::vector<DeviceWait> waits;
  std::vector<DevicePlace> sources, targets;
  std::vector<DeviceSignal> signals;
};

// Where a rank's buffers and counters lie in its device memory.
struct DeviceBuffer {
  std::int64_t offset = 0;
  std::int64_t pitch = 0;  // bytes from row to row; 0: images
  std::int64_t rows = 0, cols = 0;
};
struct DeviceLayout {
  std::vector<DeviceBuffer> buffers;
  std::int64_t counters = 0;  // a u32 each
  std::int64_t stamps = 0;    // a u64 per counter: paced, when its last signal is due
  std::int64_t num_counters = 0;
  std::int64_t bytes = 0;
};

struct DevicePlan {
  std::vector<LaneTable> tables;     // one per rank
  std::vector<DeviceLayout> layout;  // one per rank
  int output = -1;                   // the buffer that is kept in rows
};

// Throws bad_input, with the remedy, where the CUDA executor cannot run the plan.
DevicePlan device_plan(const Plan& plan, const Expander& expander);

}  // namespace weft
