#include "weft/nn/product.h"

#include <algorithm>
#include <atomic>

#include "weft/base/index.h"
#include "weft/kernel/gemm/gemm.h"

namespace weft {
namespace {

constexpr std::int64_t kRowTile = 96, kColTile = 64;
// The kernel adds to the target after the last of its own blocks of k; a target that is its own addend must have one.
constexpr std::int64_t kMostK = 1024;
constexpr std::int64_t kTurn = 16;  // rows and columns that are turned at a time, so that both sides stay cached

GemmKernel kernel_of(const ProductSizes& sizes, std::int64_t rows, std::int64_t cols, std::int64_t lda,
                     std::int64_t ldb) {
  return GemmKernel({.tile_rows = rows, .tile_cols = cols, .k = sizes.k, .lda = lda, .ldb = ldb, .k_block = kMostK});
}

GemmTarget target_of(RowsOut c, Into into) {
  GemmTarget target{c.data, c.ld};
  if (into == Into::add) target.addend = c.data, target.addend_ld = c.ld;
  return target;
}

// Calls block(part sizes, a, b, into) for every block of k.
template <typename Block>
void for_each_k_block(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into, const Block& block) {
  if (sizes.m == 0 || sizes.n == 0) return;
  if (sizes.k == 0 && into == Into::store)
    for (std::int64_t i = 0; i < sizes.m; ++i) std::fill_n(c.data + i * c.ld, sizes.n, 0.0f);
  for (std::int64_t k = 0; k < sizes.k; k += kMostK) {
    const ProductSizes part{sizes.m, sizes.n, std::min(kMostK, sizes.k - k)};
    block(part, RowsIn{a.data + k, a.ld}, RowsIn{b.data + k * b.ld, b.ld}, k == 0 ? into : Into::add);
  }
}

}  // namespace

void transpose_rows(std::int64_t rows, std::int64_t cols, RowsIn from, RowsOut to) {
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTurn)
    for (std::int64_t j0 = 0; j0 < cols; j0 += kTurn) {
      const std::int64_t i1 = std::min(rows, i0 + kTurn), j1 = std::min(cols, j0 + kTurn);
      for (std::int64_t j = j0; j < j1; ++j)
        for (std::int64_t i = i0; i < i1; ++i) to.data[j * to.ld + i] = from.data[i * from.ld + j];
    }
}

Products::Products(ThreadPool* pool) : pool_(pool) {}

void Products::times(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into) {
  for_each_k_block(sizes, a, b, c, into,
                   [&](const ProductSizes& part, RowsIn pa, RowsIn pb, Into how) { add_block(part, pa, pb, c, how); });
}

// Columns of b are packed once and serve all rows; then threads claim tiles of rows.
void Products::add_block(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into) {
  const GemmKernel kernel = kernel_of(sizes, kRowTile, kColTile, a.ld, b.ld);
  const std::int64_t panels = (sizes.n + kColTile - 1) / kColTile, panel_floats = kernel.packed_floats(kColTile);
  const std::int64_t row_tiles = (sizes.m + kRowTile - 1) / kRowTile;
  packed_.resize(std::max(packed_.size(), num(panels * panel_floats)));
  share_out(*pool_, panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      kernel.pack(std::min(kColTile, sizes.n - p * kColTile), b.data + p * kColTile, packed_.data() + p * panel_floats);
  });
  std::atomic<std::int64_t> next{0};
  const auto make_tiles = [&](int) {
    for (std::int64_t tile = next++; tile < row_tiles * panels; tile = next++) {
      const std::int64_t row = tile / panels * kRowTile, panel = tile % panels, col = panel * kColTile;
      kernel.run_packed(std::min(kRowTile, sizes.m - row), std::min(kColTile, sizes.n - col), a.data + row * a.ld,
                        packed_.data() + panel * panel_floats, target_of({c.data + row * c.ld + col, c.ld}, into));
    }
  };
  if (pool_->size() == 1 || row_tiles * panels == 1) {
    make_tiles(0);
  } else {
    pool_->run(make_tiles);
  }
}

void Products::transpose(std::int64_t rows, std::int64_t cols, RowsIn from) {
  turned_.resize(std::max(turned_.size(), num(rows * cols)));
  share_out(*pool_, rows, kTurn, [&](std::int64_t begin, std::int64_t end) {
    transpose_rows(end - begin, cols, {from.data + begin * from.ld, from.ld}, {turned_.data() + begin, rows});
  });
}

void Products::times_transposed(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into) {
  transpose(sizes.n, sizes.k, b);
  times(sizes, a, {turned_.data(), sizes.n}, c, into);
}

void Products::transposed_times(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into) {
  transpose(sizes.k, sizes.m, a);
  times(sizes, {turned_.data(), sizes.k}, b, c, into);
}

void TileProduct::times(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into) {
  for_each_k_block(sizes, a, b, c, into, [&](const ProductSizes& part, RowsIn pa, RowsIn pb, Into how) {
    const GemmKernel kernel = kernel_of(part, part.m, part.n, pa.ld, pb.ld);
    scratch_.resize(std::max(scratch_.size(), kernel.scratch_bytes() / sizeof(float)));
    kernel.run(part.m, part.n, pa.data, pb.data, target_of(c, how), scratch_.data());
  });
}

}  // namespace weft
