// What host and device both read: the records of lane tables (lane_table.h), and what a wait that has lasted too long
// leaves behind.
#pragma once

#include <cstdint>

namespace weft {

inline constexpr int kCudaTileRows = 128, kCudaTileCols = 256;  // the most that one CTA makes at a time
inline constexpr int kStripCols = 64, kStripBytes = kCudaTileRows * kStripCols * 2;
inline constexpr int kImageBytes = kCudaTileRows * kCudaTileCols * 2;
inline constexpr int kMaxCudaRanks = 8;

struct DeviceWait {
  std::uint32_t counter;  // of the waiting rank
  std::uint32_t at, total;
  std::int32_t lag;  // in run e: value >= (e - lag) * total + at
};

struct DevicePlace {
  std::int32_t rank;
  std::int32_t image;     // 1: an image at `offset`; 0: rows of the output from (row, col) on
  std::int32_t row, col;  // of the output
  std::int64_t offset;    // in bytes, in that rank's segment
};

struct DeviceSignal {
  std::int32_t rank;
  std::uint32_t counter;  // of that rank
  std::int32_t bytes;     // that it covers on a link
};

struct DeviceLane {
  std::int32_t row, col;    // of the producer's output: rows of x, columns of w
  std::int32_t rows, cols;  // of the tile; 0: none is kept
  std::int32_t first_wait, first_source, first_target, first_signal;  // in the rank's arrays
  std::int16_t waits, sources, targets, signals;                      // how many of each
  std::int32_t action, lane;                                          // of the rank's Program; lane -1: fills a pair
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
