// One tile of a matrix product: c = a * b, row-major, made from zero in f32. The executors call it for every
// tile, so choosing happens in the constructor, and running allocates nothing.
//
// It packs panels of b and keeps blocks of c in registers. An element is one chain of multiply-adds in order of k, so
// its bits depend on its row of a, its column of b and k alone: not on the tile nor the thread. The one difference left
// is the machine: with fma (avx2, avx512) each k rounds once; without (baseline) twice, the bits of gemm_naive.
//
// Tiles that share columns of b can share their packed panels: pack() once, then run_packed() for each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/dtype.h"
#include "weft/kernel/isa.h"

namespace weft {

struct Variant;
struct GemmAhead;
struct GemmPanel;

struct GemmShape {
  std::int64_t tile_rows, tile_cols, k;
  std::int64_t lda, ldb;       // elements from row to row of a and b
  Dtype b_dtype = Dtype::f32;  // f32 or bf16; a and c are f32
  // b is given as its transpose, (n, k) row-major with ldb >= k, as linear layers keep their weights; panels are packed
  // from it. Where b (k, cols) is said below, `b` points at row 0 of (cols, k) then.
  bool b_transposed = false;
  // Rows of b at a time; 0: what suits the processor. Partial sums wait in the target meanwhile: a target that is its
  // own addend needs a block of all k.
  std::int64_t k_block = 0;
  // Elements of a and b are pairs of bf16, two neighbours in k; k, lda and ldb count pairs; b_dtype is f32, as large.
  // Only where has_bf16_products().
  bool pairs = false;
};

bool has_bf16_products(Isa isa = best_isa());  // at twice the rate of f32; both factors are bf16

// Where a tile goes, and what is added to it on the way: c = addend + (a * b), in this order, rounded once
// more. A second place may get the same, from registers too.
struct GemmTarget {
  float* data;
  std::int64_t ld;
  const float* addend = nullptr;  // (rows, cols) as the tile; null: nothing
  std::int64_t addend_ld = 0;
  float* twin = nullptr;
  std::int64_t twin_ld = 0;
};

// Columns of b that a later call will pack, `cols` of them from `b` on: memory is asked for them in time, beside the
// products of the call that is told. Only speed depends on it.
struct GemmNext {
  const void* b = nullptr;
  std::int64_t cols = 0;
};

class GemmKernel {  // const after construction and shared by threads
 public:
  explicit GemmKernel(const GemmShape& shape, Isa isa = best_isa());

  std::size_t scratch_bytes() const { return scratch_bytes_; }  // for each thread; best on a 64-byte boundary

  // c (rows, cols) = a (rows, k) * b (k, cols); rows <= tile_rows, cols <= tile_cols.
  void run(std::int64_t rows, std::int64_t cols, const float* a, const void* b, const GemmTarget& c, void* scratch,
           const GemmNext& next = {}) const;

  // The same in two parts. A tile's columns of b take packed_floats(cols) floats when packed. Worth it where
  // several tiles need them.
  std::int64_t packed_floats(std::int64_t cols) const;
  // While packing, memory is asked for `next`, the b that will be packed after this one, if it is not null.
  void pack(std::int64_t cols, const void* b, float* packed, const void* next = nullptr) const;
  void run_packed(std::int64_t rows, std::int64_t cols, const float* a, const float* packed, const GemmTarget& c,
                  const GemmNext& next = {}) const;

 private:
  struct KRange {
    std::int64_t begin, size;
    bool last;
  };

  std::int64_t group_cols() const;
  KRange k_range(std::int64_t begin) const;
  const void* columns_of(const void* b, std::int64_t col) const;
  GemmAhead ahead_of(const KRange& k, const GemmNext& next) const;
  void pack_panels(const KRange& k, std::int64_t col, std::int64_t cols, const void* b, const void* next,
                   float* panels) const;
  void multiply_panels(std::int64_t rows, const float* a, const GemmPanel& panels, const KRange& k,
                       const GemmTarget& c) const;

  GemmShape shape_;
  const Variant* variant_;
  std::int64_t k_block_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace weft
