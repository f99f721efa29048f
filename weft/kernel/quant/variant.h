// The inner loops of products with weights in blocks, compiled once for each instruction set, as those of
// weft/kernel/variant.h are: variant.inc holds the text. avx512 comes with VNNI and without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/kernel/isa.h"

namespace weft {

// Rows of activations as bytes. All arrays begin with the part that has the first column of w's first block, and a row
// is a whole number of steps of kStepParts long; what no column is in is zero. What a step has of each lies in the
// order that variant_round.inc gives.
struct RoundedRows {
  std::int64_t parts = 0;           // to a row: a multiple of kStepParts
  std::int8_t* bytes = nullptr;     // (m, parts, 32)
  float* scales = nullptr;          // (m, parts); of blocks of 256 the first of each step alone
  std::int32_t* offsets = nullptr;  // (m, parts), blocks of 32: minus the sum of a part's bytes times what makes the
                                    // format's integers unsigned
  std::int16_t* sums = nullptr;     // (m, parts, 2), blocks of 256: of a part's bytes, or its halves', times the factor
  std::int16_t* factors = nullptr;  // (m, parts), blocks of 256

  RoundedRows from(std::int64_t part) const {
    return {parts, bytes + part * 32, scales + part, offsets + part, sums + part * 2, factors + part};
  }
};

inline constexpr std::int64_t kStepParts = 8;  // a block of 256, or eight of 32

// Of a part of a block of 256: as large as RoundedRows::sums can hold, and for q6_k a block's sum in 32 bits.
constexpr int largest_factor(Dtype dtype) { return dtype == Dtype::q4_k ? 8 : 16; }

struct RoundTask {
  const float* x;
  std::int64_t count;   // values
  std::int64_t before;  // zeros before them
  Dtype dtype;          // of the weights
};

struct QuantRows {
  const std::byte* w;
  Dtype dtype;
  std::int64_t count, row_bytes;
  std::int64_t begin, end;  // parts of a row that are read
};

struct QuantVectors {
  std::int64_t m;
  RoundedRows x;
  float* y;  // (m, rows) with ldy
  std::int64_t ldy;
};

// Many rows of x by a few rows of w, the same bits as by dot. Null where a variant has none.
struct QuantPanels {
  std::int64_t rows = 0;                               // of w, at most
  std::size_t (*bytes)(std::int64_t steps) = nullptr;  // of memory, 64-byte aligned
  void (*dot)(const QuantRows& rows, const QuantVectors& vectors, std::byte* memory) = nullptr;
};

struct QuantVariant {
  const char* name;
  void (*round)(const RoundTask& task, const RoundedRows& out);  // one row
  void (*dot)(const QuantRows& rows, const QuantVectors& vectors);
  QuantPanels panels;
};

extern const QuantVariant kBaselineQuant;
#if defined(__x86_64__)
extern const QuantVariant kAvx2Quant;
extern const QuantVariant kAvx512Quant;
extern const QuantVariant kVnniQuant;
#elif defined(__aarch64__)
extern const QuantVariant kNeonQuant;
#endif

std::vector<const QuantVariant*> quant_variants(Isa isa);  // of one of reachable_isas(), best last
const QuantVariant& quant_variant();                       // the best of best_isa()

}  // namespace weft
