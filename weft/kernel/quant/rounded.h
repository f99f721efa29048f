// Rows of activations as bytes, as products with weights in blocks take them (quant_rows.h): how many bytes they need,
// where they lie, and their rounding. They depend on x and on where the weights' columns begin, so all products of the
// same rows by weights of one kind can share them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/dtype.h"
#include "weft/kernel/quant/variant.h"

namespace weft {

struct RoundedForm {
  Dtype dtype = Dtype::q8_0;  // of the weights
  std::int64_t first = 0;     // columns of the weights' first block that come before x's
  std::int64_t cols = 0;      // of x
  bool operator==(const RoundedForm&) const = default;

  std::int64_t parts() const;  // to a row: whole steps
};

std::int64_t most_rounded_parts(std::int64_t cols);  // to a row, wherever in a block its columns begin

// Memory for m rows: a multiple of 64; the first wherever in a block their columns begin.
std::size_t most_rounded_bytes(std::int64_t m, std::int64_t cols);
std::size_t rounded_bytes(std::int64_t m, const RoundedForm& form);
RoundedRows rounded_in(std::byte* memory, std::int64_t m, const RoundedForm& form);  // 64-byte aligned

// Rows [begin, end) of x, by the calling thread.
void round_rows(const RoundedForm& form, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                const RoundedRows& out);

}  // namespace weft
