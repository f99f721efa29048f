#include "weft/exec/layout.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/bindings.h"

namespace weft {
namespace {

constexpr std::size_t kAlign = 4096;  // pages: buffers of a segment share none, so a window can map them apart

std::size_t aligned(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

BufferLayout buffer_layout(const Plan& plan, const Expander& expander, int index, int rank) {
  const Buffer& buffer = plan.buffers[index];
  const auto shape = expander.shape(index, rank);
  BufferLayout out;
  out.depth = buffer.depth;
  out.dtype = buffer.dtype;
  out.role = buffer.role;
  out.dims = int_size(shape);
  std::int64_t elements = 1;
  for (int d = out.dims - 1; d >= 0; --d) {
    out.shape[d] = shape[d];
    out.stride[d] = elements;
    elements *= shape[d];
  }
  if (buffer.packing.tile_rows > 0) {
    out.block_rows = expander.block_rows(index, rank);
    if (out.block_rows < 1 || buffer.packing.tile_cols < 1 || out.dims != 2)
      bad_input("buffer \"{}\" cannot be packed in blocks of {} rows", buffer.name, out.block_rows);
    out.tile_rows = buffer.packing.tile_rows;
    out.tile_cols = buffer.packing.tile_cols;
    out.tiles_across = ceil_div(shape[1], out.tile_cols);
    out.block_elements = ceil_div(out.block_rows, out.tile_rows) * out.tiles_across * out.tile_rows * out.tile_cols;
    elements = ceil_div(shape[0], out.block_rows) * out.block_elements;
  }
  if (buffer.dtype == Dtype::int8 && out.tile_cols % kInt8Block + (out.tile_cols == 0) != 0)
    bad_input("buffer \"{}\" is int8; pack it in tiles of a multiple of {} columns", buffer.name, kInt8Block);
  out.copy_bytes = aligned(num(row_bytes(buffer.dtype, elements)), kAlign);
  return out;
}

}  // namespace

std::int64_t BufferLayout::element(const std::array<std::int64_t, kMaxDims>& at) const {
  if (block_rows > 0) {
    const std::int64_t row = at[0] % block_rows;
    const std::int64_t tile = row / tile_rows * tiles_across + at[1] / tile_cols;
    return at[0] / block_rows * block_elements + tile * tile_rows * tile_cols + row % tile_rows * tile_cols +
           at[1] % tile_cols;
  }
  std::int64_t out = 0;
  for (int d = 0; d < dims; ++d) out += at[d] * stride[d];
  return out;
}

Layout layout_of(const Plan& plan, const Expander& expander, int rank) {
  constexpr std::size_t kMost = std::size_t{1} << 46;
  Layout out;
  for (int b = 0; b < int_size(plan.buffers); ++b) {
    BufferLayout buffer = buffer_layout(plan, expander, b, rank);
    buffer.offset = out.bytes;
    if (buffer.role != Role::input) out.bytes += buffer.copy_bytes * buffer.depth;
    if (buffer.copy_bytes > kMost || out.bytes > kMost)
      bad_input("plan \"{}\" needs more than {} bytes on rank {}; make the sizes smaller", plan.name, kMost, rank);
    out.buffers.push_back(buffer);
  }
  out.counters = out.bytes;
  out.num_counters = expander.num_counters(rank);
  out.bytes = aligned(out.bytes + num(out.num_counters) * 4, kAlign);
  return out;
}

std::int64_t rows_that_count(const Action& action, const Counts& counts) {
  const std::int64_t rows = action.box.dims > 0 ? action.box.size(0) : 0;
  switch (action.limit) {
    case Limit::none:
      return rows;
    case Limit::rows:
      return counts.rows < 0 ? rows : std::clamp<std::int64_t>(counts.rows - action.box.lo[0], 0, rows);
    case Limit::peer:
      return counts.peers.empty() ? rows : std::clamp<std::int64_t>(counts.peers[action.limit_peer], 0, rows);
  }
  return rows;
}

}  // namespace weft
