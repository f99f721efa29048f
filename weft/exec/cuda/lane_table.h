// A plan as flat tables that a kernel can walk: what an Expander says of each rank, tile by tile, with the addresses in
// the ranks' device memory. No CUDA header is needed here, so tables are made and checked on any machine
// (host_lanes.h); fused_gemm.cuh walks them on a GPU.
//
//   lane      one tile of a step, or of a trigger that sums or finishes: what the multiplying warps do. Lanes come in
//             pairs, two tiles of one column of the same action, one below the other, which a cluster of two CTAs makes
//             together. An action with an odd number of tile rows ends in lanes that make a tile again and keep nothing
//             of it. Rows for peers, of which a run's counts leave some out, are paired with those of the next peer: so
//             a cluster is idle for less than a tile of each, not for two. A copy as producer makes no product: its
//             tile of x is the last source
//   trigger   one lane of a trigger that copies or only signals, or a part of one: a copy that is larger than a tile is
//             cut into parts, and the last part to end signals for all
//   place     where a tile lies: an image (below) in a packed buffer, or rows of a matrix
//   matrix    what lies in rows on a rank: x, the output, rows that are gathered or staged
//   image     a tile as the kernel keeps it in shared memory, 64 KB whatever its rows and columns: a strip of 64
//             columns after the other, each of 128 rows of 128 bytes whose 16-byte parts are swizzled. It is the
//             executor's own: a plan only says which tile goes where
//   column    of bf16; of f32 half of one. So tiles of f32 have 128 columns of the plan, and what is only moved is
//             moved alike
//   counts    rows that count in a run, in the rank's device memory: of all rows, then for each peer
//
// Order. Lanes of an action are permuted: pairs for the cluster, and groups of pairs that share columns of w in L2.
// Steps that multiply rows which all peers send at once take turns, and so do those that make rows for all peers.
// Triggers that sum come last. A plan promises
// something for steps in listed order only, so an executor asks HostLanes whether its order ends.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/exec/cuda/crossings.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/exec/cuda/lane_order.h"
#include "weft/plan/program.h"

namespace weft {

struct LaneTable {
  std::vector<DeviceLane> lanes;  // 2t and 2t + 1 are a pair
  std::vector<DeviceWork> works;  // of the lanes
  std::vector<DeviceLane> triggers;
  std::vector<DeviceWait> waits;
  std::vector<DevicePlace> sources, targets;
  std::vector<DeviceSignal> signals;
  std::int32_t parted = 0;  // triggers that are cut into parts
};

// Where a rank's buffers and counters lie in its device memory.
struct DeviceBuffer {
  std::int64_t offset = 0;
  std::int64_t copy_bytes = 0;  // images: from one copy to the next
  int depth = 1;
  int matrix = -1;  // -1: images
};
struct DeviceMatrixShape {
  int buffer = -1;                  // -1: the operand x
  std::int64_t offset = 0;          // in the segment; of no use where the caller has the memory
  std::int64_t rows = 0, cols = 0;  // as tables count columns
};
struct DeviceLayout {
  std::vector<DeviceBuffer> buffers;
  std::vector<DeviceMatrixShape> matrices;  // 0: x
  std::int64_t counters = 0;                // a u32 each
  std::int64_t stamps = 0;                  // a u64 per counter: paced, when its last signal is due
  std::int64_t num_counters = 0;
  std::int64_t bytes = 0;
};

struct DevicePlan {
  std::vector<LaneTable> tables;     // one per rank
  std::vector<DeviceLayout> layout;  // one per rank
  int output = -1;                   // the matrix that the caller reads
  Dtype sums = Dtype::bf16;          // what outputs and partial sums are: bf16 or f32
  std::vector<Crossing> crossings;   // where ranks share no memory
};

// A rank's counts as its lanes read them: rows of all, then for each peer; INT32_MAX: all.
std::vector<std::int32_t> device_counts(const Counts& counts, int num_ranks);

// Throws bad_input, with the remedy, where the CUDA executor cannot run the plan.
DevicePlan device_plan(const Plan& plan, const Expander& expander, const LaneOrder& order = {});

}  // namespace weft
