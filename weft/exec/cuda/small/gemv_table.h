// A plan of few rows as tables for the gemv kernel (gemv.cu): an all_reduce by one_shot of a product or of rows as they
// are, or a product that is kept. A tile has all rows and 16 columns of w (n, k). No counter is waited for: each value
// travels with the number of its run in one store of 8 bytes (LL, "low latency"), so who reads a word sees both or
// neither. Inboxes have two halves, for even and odd runs.
//
// When that is right. A wait of the plan may become a look at the words themselves if its counter covers nothing but
// the piece that the waiter reads: gemv_plan checks that every word which is read is written by one lane of one rank.
// Credits are met by the order of launches: a half is written again two runs later, and run e + 1 ends no earlier than
// run e. docs/cuda.md has the argument.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/exec/cuda/device_lane.h"
#include "weft/plan/program.h"

namespace weft {

inline constexpr int kGemvCols = 16, kGemvMaxRows = 16, kGemvDepth = 32;  // of a tile; k is a multiple of the last

struct GemvTarget {
  std::int32_t rank;
  std::int32_t element;  // of that rank's inbox: where the tile's first row begins
};

struct GemvTable {
  std::vector<GemvTarget> targets;    // [tile][num_targets]
  std::vector<std::int32_t> sources;  // [tile][row][num_sources]: elements of the own inbox, in the order of the sum
};

struct GemvPlan {
  int rows = 0, cols = 0, depth = 0, tiles = 0;  // of one rank; depth 0: rows as they are
  int num_targets = 0, num_sources = 0;          // 0 and 0: tiles are kept
  std::int64_t inbox_elements = 0;               // of one half
  std::vector<GemvTable> tables;                 // one per rank

  bool keeps() const { return num_targets == 0; }
  bool multiplies() const { return depth > 0; }
};

// Throws bad_input, with the remedy, where the plan is no such one.
GemvPlan gemv_plan(const Plan& plan, const Expander& expander);

// "rank 3 waited 10.0 s for tile 5 [0:4, 80:96] of rank 2 in run 7", of a failure whose `index` is the tile, `wait`
// which of its sources, row by row, and `started` the run.
std::string describe_gemv(const GemvPlan& plan, const DeviceFailure& failure);

}  // namespace weft
