// The listed sum and the store. Every sum between ranks in Weft is a left fold in listed order,
// ((s0 + s1) + ...) + s_last, in f32, rounded once at the store: this is what makes routes agree bit for bit.
// Nothing here reassociates, allocates or locks.
#pragma once

#include <cstdint>
#include <span>

#include "weft/base/dtype.h"

namespace weft {

// rows x cols elements; row r starts at data + r * ld elements; of int8, blocks of them, row r * row_bytes(int8, ld)
// on.
struct Strip {
  void* data;
  std::int64_t ld;
  Dtype dtype;
};

struct ConstStrip {
  const void* data;
  std::int64_t ld;
  Dtype dtype;
};

// target = ((s0 + s1) + ...) + s_last; no sources give zeros. Sources and target are f32, bf16 or int8, else
// bad_input. The target may be one of the sources (same data, ld and dtype) but must not overlap them in
// another way.
void sum(std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources, const Strip& target);

// target = source. Equal dtypes (any dtype) are copied as bytes; f32, bf16 and int8 convert into each other, bf16
// rounded to nearest even, int8 as dtype.h says; other pairs are bad_input. The two must not overlap.
void copy(std::int64_t rows, std::int64_t cols, const ConstStrip& source, const Strip& target);

// The same past the caches, for what is larger than they are: lines of the target are not read before they are written.
// All is stored when it returns: a signal after it covers it. Only whole rows of equal dtypes go this way; others as
// copy().
void copy_past_caches(std::int64_t rows, std::int64_t cols, const ConstStrip& source, const Strip& target);

}  // namespace weft
