// Where one rank's buffers and counters lie in its segment, and which bytes a box of a buffer is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/kernel/rows/sum.h"
#include "weft/plan/program.h"

namespace weft {

struct BufferLayout {
  std::size_t offset = 0;      // of copy 0 in the segment
  std::size_t copy_bytes = 0;  // from one copy to the next
  int depth = 1;
  Dtype dtype = Dtype::f32;
  Role role = Role::internal;
  int dims = 0;
  std::array<std::int64_t, kMaxDims> shape{}, stride{};  // row-major, in elements
  std::int64_t block_rows = 0, block_elements = 0;       // packed: see plan.h; 0: not packed
  std::int64_t tile_rows = 0, tile_cols = 0, tiles_across = 0;

  // Element offset of a corner, and the distance from row to row there (a box of a packed buffer lies in one tile).
  std::int64_t element(const std::array<std::int64_t, kMaxDims>& at) const;
  std::int64_t row_stride() const { return block_rows > 0 ? tile_cols : dims > 1 ? stride[dims - 2] : shape[0]; }
};

struct Layout {
  std::vector<BufferLayout> buffers;
  std::size_t counters = 0;  // offset of counter 0; each is a u32
  std::int64_t num_counters = 0;
  std::size_t bytes = 0;
};

// Throws bad_input where the rank's memory would exceed what 64 bits of address can hold.
Layout layout_of(const Plan& plan, const Expander& expander, int rank);

// Calls f(rows, cols, corner offset per dimension) for every 2-d strip of a box: once for boxes of up to two
// dimensions. Dimensions `row_dim` to the last but one are a strip's rows.
template <typename F>
void for_each_strip(const Box& box, int row_dim, F&& f) {
  std::array<std::int64_t, kMaxDims> at{};
  std::int64_t rows = 1, outer = 1;
  for (int d = std::max(row_dim, 0); d < box.dims - 1; ++d) rows *= box.size(d);
  const std::int64_t cols = box.size(box.dims - 1);
  for (int d = 0; d < row_dim; ++d) outer *= box.size(d);
  for (std::int64_t i = 0; i < outer; ++i) {
    std::int64_t rest = i;
    for (int d = row_dim - 1; d >= 0; --d) {
      at[d] = rest % box.size(d);
      rest /= box.size(d);
    }
    f(rows, cols, at);
  }
}

inline std::array<std::int64_t, kMaxDims> corner(const Box& box, const std::array<std::int64_t, kMaxDims>& at) {
  std::array<std::int64_t, kMaxDims> out = box.lo;
  for (int d = 0; d < box.dims; ++d) out[d] += at[d];
  return out;
}

// Rows of an action's box that count in this run: the box's own, or fewer.
struct Counts;
std::int64_t rows_that_count(const Action& action, const Counts& counts);

}  // namespace weft
