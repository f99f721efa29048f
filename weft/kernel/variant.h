// The inner loops of the kernels, compiled once for each instruction set. variant.inc holds the text;
// variant_<isa>.cc compile it; the kernels proper check their arguments and call through this table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "weft/base/dtype.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/kernel/isa.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/kernel/rows/sum.h"
#include "weft/kernel/table/embedding_bag.h"

namespace weft {

// Memory that will be read soon: `rows` stretches of `bytes`, `step` bytes apart. It is asked for beside other work.
struct GemmAhead {
  const void* data = nullptr;
  std::int64_t rows = 0, bytes = 0, step = 0;
};

// Columns of b for a range of k, in f32: panels as Variant::pack leaves them, or columns where they lie, a whole number
// of registers.
struct GemmPanel {
  const float* data;
  std::int64_t k;
  std::int64_t cols;
  std::int64_t ld;      // 0: packed
  GemmAhead next = {};  // rows 0: of packed panels each asks for the one behind it
};

struct PanelSource {
  const void* data;
  Dtype dtype;
  std::int64_t ld;
  const void* next;
};

struct GemvRows {
  const void* w;  // (count, k) with ld
  Dtype dtype;
  std::int64_t count, k, ld;
  std::int64_t to_come;     // rows behind these that will be asked for next: memory is asked for them in time
  bool huge_pages = false;  // w has them
};

struct GemvVectors {
  std::int64_t m;
  const float* x;  // (m, k) with ldx
  std::int64_t ldx;
  float* y;  // (m, rows) with ldy
  std::int64_t ldy;
};

struct StripList {  // at least one
  const ConstStrip* strips;
  std::size_t count;
};

struct Variant {
  std::int64_t lanes;       // floats in a register
  std::int64_t block_rows;  // rows of c held in registers at once
  std::int64_t panel_cols;  // and columns

  // Panels of panel_cols columns one after another: panel(p, 0..cols) = b(p, 0..cols) for p < k; rows of the last are
  // as long as the next whole register, the rest zero. Meanwhile memory is asked for `next`, of the same shape, if it
  // is not null.
  void (*pack)(std::int64_t k, std::int64_t cols, const PanelSource& b, float* panels);

  // The same from the transpose of b: panel(p, j) = b(j, p) with b (cols, k).
  void (*pack_transposed)(std::int64_t k, std::int64_t cols, const PanelSource& b, float* panels);

  // c = a * panels, or c + a * panels where `accumulate`, then c = addend + c where there is one; each element
  // is one chain of multiply-adds in order of k.
  void (*multiply)(std::int64_t rows, const float* a, std::int64_t lda, const GemmPanel& panels, const GemmTarget& c,
                   bool accumulate);

  void (*widen)(std::int64_t count, const void* source, Dtype dtype, float* target);
  void (*gemv)(const GemvRows& rows, const GemvVectors& vectors);
  void (*bag)(const EmbeddingTable& table, const Bags& bags, Pooling pooling, std::int64_t begin, std::int64_t end,
              float* out, std::int64_t ld);
  void (*sum)(std::int64_t rows, std::int64_t cols, const StripList& sources, const Strip& target);
  void (*apply)(std::int64_t rows, std::int64_t cols, const Epilogue& epilogue, float* tile, std::int64_t ld);
};

// Products of bf16: `gemm` has the functions of a product alone, and takes pairs of bf16, two neighbours in k, where
// floats are otherwise, in rows of a and in panels of b.
struct PairVariant {
  Variant gemm;
  void (*round)(std::int64_t count, const float* x, bf16* out);  // to nearest, ties to even
};

extern const Variant kBaselineVariant;
#if defined(__x86_64__)
extern const PairVariant kAvx512Pairs;
extern const Variant kAvx2Variant;
extern const Variant kAvx512Variant;
#elif defined(__aarch64__)
extern const Variant kNeonVariant;
#endif

const Variant& variant(Isa isa);           // of one of reachable_isas()
const Variant& variant();                  // of best_isa()
const PairVariant* pair_variant(Isa isa);  // null where this machine has no such products

}  // namespace weft
