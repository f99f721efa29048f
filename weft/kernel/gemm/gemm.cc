#include "weft/kernel/gemm/gemm.h"

#include <unistd.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

// Rows of b taken at a time: a panel of avx512's 64 columns is then 256 KiB, which streams from the second-level cache,
// and c is read and written once for all usual k (2048 x 2048 x 1024: 112 GF/s with 1024, 107 with 256; avx2 110 and
// 105). Where that cache is small, rows of a would not stay there beside it.
constexpr std::int64_t kKBlock = 1024;

std::int64_t usual_k_block() {
  static const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return cache > 0 && cache < (512 << 10) ? kKBlock / 2 : kKBlock;
}

// Columns of b that run() packs at a time, and rows of a that meet their panels before the next rows do: both stay in
// the second-level cache meanwhile. Rows are a multiple of every variant's block.
constexpr std::int64_t kGroupCols = 64, kChunkRows = 96;

// Rows of b a whole number of pages apart share few sets of a cache: asked for early, they would be gone again when
// they are packed (64 x 4096 x 1024, avx2: 76 GF/s without asking, 69 with; 320 x 3000 x 777: 97 and 101).
constexpr std::int64_t kPageBytes = 4096;

void check(const GemmShape& shape) {
  if (shape.tile_rows < 1 || shape.tile_cols < 1 || shape.k < 0)
    bad_input("gemm tile of {} x {} with k = {}: rows and columns must be at least 1, k at least 0", shape.tile_rows,
              shape.tile_cols, shape.k);
  if (shape.lda < shape.k)
    bad_input("gemm: the rows of a are {} elements apart but {} long; use lda >= k", shape.lda, shape.k);
  if (shape.b_transposed && shape.ldb < shape.k)
    bad_input("gemm: the rows of b's transpose are {} elements apart but {} long; use ldb >= k", shape.ldb, shape.k);
  if (shape.b_dtype != Dtype::f32 && shape.b_dtype != Dtype::bf16 && shape.b_dtype != Dtype::f16)
    bad_input("gemm: b is {}; use f32, bf16 or f16", to_string(shape.b_dtype));
}

const Variant& variant_of(const GemmShape& shape, Isa isa) {
  if (!shape.pairs) return variant(isa);
  const PairVariant* pairs = pair_variant(isa);
  if (pairs == nullptr || shape.b_dtype != Dtype::f32)
    bad_input("gemm: pairs of bf16 on {} with b as {}; use them where the processor multiplies them, with b as f32",
              to_string(isa), to_string(shape.b_dtype));
  return pairs->gemm;
}

const void* element(const void* b, Dtype dtype, std::int64_t index) {
  return static_cast<const char*>(b) + num(index) * size_of(dtype);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Blocks of k of one size, at most `most`: a short one at the end would read and write all of c for few products.
std::int64_t even_block(std::int64_t k, std::int64_t most) {
  const std::int64_t blocks = std::max<std::int64_t>(ceil_div(k, most), 1);
  return std::max<std::int64_t>(std::min(ceil_div(ceil_div(k, blocks), 8) * 8, most), 1);
}

// The part of c from `row` and `col` on; the addend and the twin come after the last k.
GemmTarget part_of(const GemmTarget& c, std::int64_t row, std::int64_t col, bool last) {
  GemmTarget out{c.data + row * c.ld + col, c.ld};
  if (last && c.addend != nullptr) out.addend = c.addend + row * c.addend_ld + col, out.addend_ld = c.addend_ld;
  if (last && c.twin != nullptr) out.twin = c.twin + row * c.twin_ld + col, out.twin_ld = c.twin_ld;
  return out;
}

void no_products(std::int64_t rows, std::int64_t cols, const GemmTarget& c) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < cols; ++j) {
      const float value = c.addend != nullptr ? c.addend[r * c.addend_ld + j] + 0.0f : 0.0f;
      c.data[r * c.ld + j] = value;
      if (c.twin != nullptr) c.twin[r * c.twin_ld + j] = value;
    }
}

}  // namespace

bool has_bf16_products(Isa isa) { return pair_variant(isa) != nullptr; }

GemmKernel::GemmKernel(const GemmShape& shape, Isa isa)
    : shape_(shape),
      variant_(&variant_of(shape, isa)),
      k_block_(even_block(shape.k, shape.k_block > 0 ? shape.k_block : usual_k_block())) {
  check(shape);
  scratch_bytes_ = num(group_cols() * std::min(k_block_, shape.k)) * sizeof(float);
}

std::int64_t GemmKernel::group_cols() const {
  const std::int64_t cols = std::min(kGroupCols, shape_.tile_cols), lanes = variant_->lanes;
  return std::max(variant_->panel_cols, ceil_div(cols, lanes) * lanes);
}

const void* GemmKernel::columns_of(const void* b, std::int64_t col) const {
  return element(b, shape_.b_dtype, shape_.b_transposed ? col * shape_.ldb : col);
}

GemmAhead GemmKernel::ahead_of(const KRange& k, const GemmNext& next) const {
  const auto size = static_cast<std::int64_t>(size_of(shape_.b_dtype));
  const std::int64_t step = shape_.ldb * size, cols = std::min(next.cols, kGroupCols);
  if (next.b == nullptr || cols < 1 || step % kPageBytes == 0) return {};
  // As they lie: rows one below the other or, of the transpose, side by side.
  if (shape_.b_transposed) return {element(next.b, shape_.b_dtype, k.begin), cols, k.size * size, step};
  return {element(next.b, shape_.b_dtype, k.begin * shape_.ldb), k.size, cols * size, step};
}

void GemmKernel::run(std::int64_t rows, std::int64_t cols, const float* a, const void* b, const GemmTarget& c,
                     void* scratch, const GemmNext& next) const {
  if (shape_.k == 0) return no_products(rows, cols, c);
  auto* room = static_cast<float*>(scratch);
  const std::int64_t group = group_cols();
  // Read once, b need not be packed: that would only add to it.
  const bool as_it_is = rows <= variant_->block_rows && shape_.b_dtype == Dtype::f32 && !shape_.b_transposed;
  for (std::int64_t begin = 0; begin < shape_.k; begin += k_block_)
    for (std::int64_t col = 0; col < cols; col += group) {
      const KRange k = k_range(begin);
      const std::int64_t count = std::min(group, cols - col), left = cols - col - count;
      const GemmNext behind = left > 0 ? GemmNext{columns_of(b, col + count), left} : next;
      GemmPanel panels{room, k.size, count, 0};
      if (as_it_is && count % variant_->lanes == 0)
        panels.data = static_cast<const float*>(b) + begin * shape_.ldb + col, panels.ld = shape_.ldb;
      else
        pack_panels(k, col, count, b, nullptr, room), panels.next = ahead_of(k, behind);
      multiply_panels(rows, a, panels, k, part_of(c, 0, col, true));
    }
}

GemmKernel::KRange GemmKernel::k_range(std::int64_t begin) const {
  const std::int64_t size = std::min(k_block_, shape_.k - begin);
  return {begin, size, begin + size == shape_.k};
}

void GemmKernel::pack_panels(const KRange& k, std::int64_t col, std::int64_t cols, const void* b, const void* next,
                             float* panels) const {
  const std::int64_t ldb = shape_.ldb;
  const std::int64_t first = shape_.b_transposed ? col * ldb + k.begin : k.begin * ldb + col;
  const auto pack = shape_.b_transposed ? variant_->pack_transposed : variant_->pack;
  const PanelSource source{element(b, shape_.b_dtype, first), shape_.b_dtype, ldb,
                           next == nullptr ? nullptr : element(next, shape_.b_dtype, first)};
  pack(k.size, cols, source, panels);
}

// One block of k: rows in chunks, each meeting all panels.
void GemmKernel::multiply_panels(std::int64_t rows, const float* a, const GemmPanel& panels, const KRange& k,
                                 const GemmTarget& c) const {
  GemmPanel now = panels;
  for (std::int64_t row = 0; row < rows; row += kChunkRows, now.next = {})  // once is enough
    variant_->multiply(std::min(kChunkRows, rows - row), a + row * shape_.lda + k.begin, shape_.lda, now,
                       part_of(c, row, 0, k.last), k.begin > 0);
}

std::int64_t GemmKernel::packed_floats(std::int64_t cols) const {
  return shape_.k * ceil_div(cols, variant_->lanes) * variant_->lanes;
}

// Packed: blocks of k, in each the panels of the tile one after another, in the order of use.
void GemmKernel::pack(std::int64_t cols, const void* b, float* packed, const void* next) const {
  const std::int64_t ld = ceil_div(cols, variant_->lanes) * variant_->lanes;
  for (std::int64_t begin = 0; begin < shape_.k; begin += k_block_)
    pack_panels(k_range(begin), 0, cols, b, next, packed + begin * ld);
}

void GemmKernel::run_packed(std::int64_t rows, std::int64_t cols, const float* a, const float* packed,
                            const GemmTarget& c, const GemmNext& next) const {
  if (shape_.k == 0) return no_products(rows, cols, c);
  const std::int64_t ld = ceil_div(cols, variant_->lanes) * variant_->lanes;
  for (std::int64_t begin = 0; begin < shape_.k; begin += k_block_) {
    const KRange k = k_range(begin);
    multiply_panels(rows, a, {packed + begin * ld, k.size, cols, 0, ahead_of(k, next)}, k, c);
  }
}

}  // namespace weft
