// What host and device both read: the records of lane tables (lane_table.h), and what lanes of a traced run and a wait
// that has lasted too long leave behind.
#pragma once

#include <cstdint>

#include "weft/base/dtype.h"

namespace weft {

// The most that one CTA makes at a time. Columns are those of bf16, here and in tables: one of f32 is two halves.
constexpr std::int64_t halves_of(Dtype type) { return type == Dtype::f32 ? 2 : 1; }
inline constexpr int kCudaTileRows = 128, kCudaTileCols = 256;
inline constexpr int kStripCols = 64, kStripBytes = kCudaTileRows * kStripCols * 2;
inline constexpr int kImageBytes = kCudaTileRows * kCudaTileCols * 2;
inline constexpr int kMaxCudaRanks = 8;
inline constexpr int kMaxPlanMatrices = 4;  // of a rank, in rows: x, what is gathered or staged, and y
inline constexpr int kMaxMatrices = 7;      // with outboxes for all but x (crossings.h)

enum class CudaLink { hbm, pcie };  // ranks write into one another's memory; or copy engines do, through the host

struct DeviceWait {
  std::uint32_t counter;  // of the waiting rank
  std::uint32_t at, total;
  std::int32_t lag;  // in run e: value >= (e - lag) * total + at
};

struct DevicePlace {
  std::int32_t rank;
  std::int32_t matrix;      // rows of that matrix of the rank from (row, col) on; -1: an image at `offset`
  std::int32_t row, col;    // of the matrix
  std::int64_t offset;      // of an image, in bytes, in that rank's segment
  std::int64_t copy_bytes;  // run e uses the copy at offset + e % depth * copy_bytes
  std::int32_t depth;
};

struct DeviceSignal {
  std::int32_t rank;
  std::uint32_t counter;  // of that rank
  std::int32_t bytes;     // that it covers on a link
};

struct DeviceLane {
  std::int32_t row, col;    // of a product: rows of the matrix `reads`, columns of the output
  std::int32_t rows, cols;  // of the tile; 0: none is kept
  std::int32_t first_wait, first_source, first_target, first_signal;  // in the rank's arrays
  std::int16_t waits, sources, targets, signals;                      // how many of each
  std::int16_t product;                                               // 1: (sources) + x * w; 0: the sources alone
  std::int16_t finish;        // 1: bias, activation and residual before it is stored
  std::int16_t reads;         // matrix of the rank whose rows a product takes; 0: x
  std::int16_t limit;         // which of the rank's counts shortens it; -1: none
  std::int32_t limit_from;    // rows that count: counts[limit] - limit_from
  std::int32_t parts;         // of a copy: how many of them signal together, the last to end
  std::int32_t part;          // and where those that have ended are counted
  std::int32_t action, lane;  // of the rank's Program; lane -1: fills a pair
};

// What the multiplying warps must know of a lane before they begin it, in one load.
struct alignas(16) DeviceWork {
  std::int32_t limit_from;  // as the lane's
  std::int32_t pair_from;   // as that of the other lane of its pair: both are multiplied, or neither
  std::uint16_t cols;
  std::uint8_t rows, sources;
  std::int8_t limit, pair_limit;
  std::uint8_t product;
  std::uint8_t does;  // kFinishes, kTells
};
inline constexpr int kFinishes = 1;
inline constexpr int kTells = 2;  // goes round even without rows, so that its signals come after its waits

// When a lane or a trigger of a traced run came to what, in ns of the GPU's clock; 0: it did not.
struct LaneTimes {
  std::uint64_t rows, rows_met;     // warp 0: waits for rows that other ranks send
  std::uint64_t asked, asked_last;  // warp 0: for its first and its last block of operands
  std::uint64_t waits;              // warp 1: waits for its counters, of which each has a time of its own
  std::uint64_t stores;             // warp 2: has the first strip of its sum; a trigger: is ready, and moves it
  std::uint64_t told;               // all is stored, and who waits for it has been told
};

struct DeviceFailure {
  std::uint32_t failed = 0;  // the first to give up writes the rest
  std::int32_t rank = 0;
  std::int32_t trigger = 0;  // 1: `index` is one of the rank's triggers, 0: of its lanes
  std::int32_t index = 0, wait = 0;
  std::uint32_t seen = 0;     // value of the counter
  std::uint32_t started = 0;  // what it had when the run that is waited for began
  std::uint64_t waited_ns = 0;
};

}  // namespace weft
