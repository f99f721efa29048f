// Weights in blocks, as GGUF files hold them: a few bits per value, and scales that the values of a block share. What
// the bytes of a block mean stands here, once, for the readers of files, for the kernels and for their plain twins.
//   q8_0  32 values, 34 bytes: scale d (half), 32 signed bytes; value = d q
//   q4_0  32 values, 18 bytes: scale d (half), 16 bytes; byte j has value j in its low half and value j + 16 in its
//         high half; value = d (q - 8)
//   q4_k  256 values, 144 bytes: d, dmin (halves), 12 bytes with 8 scales and 8 minima of 6 bits, 128 bytes; 32 bytes
//         have two parts of 32 values, one in the low halves and the next in the high ones;
//         value = (d scale) q - dmin minimum
//   q6_k  256 values, 210 bytes: 128 bytes with the low 4 bits, 64 with the high 2 bits, 16 signed scales (one per 16
//         values), d (half); each half of 128 values has 64 low and 32 high bytes: high byte l has value l and those
//         32, 64 and 96 on; value = (d scale) (q - 32)
// A part is 32 values, the unit in which rows are cut. All values are exact in f32, so that no fused or unfused
// multiply-add can change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/dtype.h"

namespace weft {

inline constexpr std::int64_t kPart = 32;

constexpr bool is_blocked(Dtype dtype) {
  return dtype == Dtype::q8_0 || dtype == Dtype::q4_0 || dtype == Dtype::q4_k || dtype == Dtype::q6_k;
}

// Scale and minimum of part s of a q4_k block, from its 12 bytes.
struct ScaleMin {
  int scale, min;
};
inline ScaleMin scale_min(const std::uint8_t* packed, int s) {
  if (s < 4) return {packed[s] & 63, packed[s + 4] & 63};
  return {(packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4, (packed[s + 4] >> 4) | (packed[s] >> 6) << 4};
}

// Values [first, first + count) of a row that begins at `row`, as f32. `dtype` is one of blocks, else bad_input.
void dequantise(Dtype dtype, const std::byte* row, std::int64_t first, std::int64_t count, float* out);

// `count` values, whole blocks, rounded to the nearest that the format has: q8_0 and q4_0 with the bits of llama.cpp;
// of the others, scales that make the sum of squared errors small. bad_input where count is no whole number of blocks.
void quantise(Dtype dtype, std::int64_t count, const float* values, std::byte* out);

}  // namespace weft
