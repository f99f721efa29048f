// The small ops whose times tell the rates of this machine: what each moves is known, so that a rate follows (solve.h).
#pragma once

#include <array>
#include <cstdint>

namespace weft::calibrating {

// The trials, by their place in the list.
enum {
  one_tile,
  many_tiles,
  long_rows,
  brief_gemm,
  full_gemm,
  brief_onednn,  // the same products by a library; 0 s where it is not there
  full_onednn,
  brief_openblas,
  full_openblas,
  copied,
  scattered,
  lookup,
  hot_lookup,
  hot_long,
  hot_short,
  ping_pong,
  num_trials
};
using TrialSeconds = std::array<double, num_trials>;

inline constexpr std::int64_t kTiles = 4096, kTileCols = 16;  // tiles of a cache line: nothing but what a tile costs
inline constexpr std::int64_t kLongRow = 2048, kLongRows = 4096;
inline constexpr std::int64_t kSide = 2048, kBriefK = 32, kFullK = 192;  // outputs larger than the caches
// Tables of 205 MB. Hot rows are spread over them, as popular ones are: 4 MB in all, which stay in the last-level
// cache.
inline constexpr std::int64_t kTables = 2, kTableRows = 200'000, kDim = 128, kBatch = 4096, kPooled = 8, kTurns = 8;
inline constexpr std::int64_t kHotRows = 4096, kHotStride = kTableRows / kHotRows;
// The same 256 KB of weights in a few long rows and in many short ones, a single tile each. Rows as short as can be: of
// longer ones, reading hides what an output costs.
inline constexpr std::int64_t kHotLong = 1024, kHotFew = 64, kHotShort = 16, kHotMany = 4096;
static_assert(kHotLong * kHotFew == kHotShort * kHotMany);

// Two ranks run all trials in turn, one core each, for two to four seconds. Seconds of each, on the slower rank.
TrialSeconds time_trials();

}  // namespace weft::calibrating
