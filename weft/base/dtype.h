// Element types; bf16 as bits: the upper half of a float, rounded to nearest even; f16, which only weights of models
// are; and int8, which is a format of sums between ranks and not of tensors: a row is cut into blocks of 32 columns
// (the last may be short), each a bf16 scale followed by one signed byte a column, value = scale * byte. 34 bytes for
// 32 values: 1.0625 a value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

enum class Dtype { f32, bf16, i32, i64, u8, int8, f16, q8_0, q4_0, q4_k, q6_k };

inline constexpr std::int64_t kInt8Block = 32, kInt8BlockBytes = 34;

// Of the formats of weights in blocks (quant/blocks.h), one block: 32 or 256 values that share their scales. Of all
// others, one value.
struct DtypeBlock {
  std::int64_t values, bytes;
};
constexpr DtypeBlock block_shape(Dtype dtype);

// Bytes of one value. Of q8_0, q4_0, q4_k and q6_k, which have no such number, 0: see row_bytes.
constexpr std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return 4;
    case Dtype::bf16:
      return 2;
    case Dtype::i32:
      return 4;
    case Dtype::i64:
      return 8;
    case Dtype::u8:
      return 1;
    case Dtype::int8:
      return 1;  // without its part of a scale: see row_bytes
    case Dtype::f16:
      return 2;
    case Dtype::q8_0:
    case Dtype::q4_0:
    case Dtype::q4_k:
    case Dtype::q6_k:
      return 0;
  }
  return 0;
}

constexpr DtypeBlock block_shape(Dtype dtype) {
  switch (dtype) {
    case Dtype::q8_0:
      return {32, 34};
    case Dtype::q4_0:
      return {32, 18};
    case Dtype::q4_k:
      return {256, 144};
    case Dtype::q6_k:
      return {256, 210};
    default:
      return {1, size_of(dtype)};
  }
}

// Bytes of that many values that follow one another in a row; of int8 from the beginning of a block on, and of weights
// in blocks whole blocks. So value `at`, the first of a block, is row_bytes(dtype, at) bytes from the row's first.
constexpr std::int64_t row_bytes(Dtype dtype, std::int64_t values) {
  if (size_of(dtype) == 0) return values / block_shape(dtype).values * block_shape(dtype).bytes;
  const std::int64_t bytes = values * size_of(dtype);
  return dtype == Dtype::int8 ? bytes + 2 * ((values + kInt8Block - 1) / kInt8Block) : bytes;
}

// Bytes per value of many, shares of scales counted.
constexpr double bytes_per_value(Dtype dtype) {
  const DtypeBlock block = block_shape(dtype);
  return dtype == Dtype::int8 ? static_cast<double>(kInt8BlockBytes) / kInt8Block
                              : static_cast<double>(block.bytes) / static_cast<double>(block.values);
}

std::string_view to_string(Dtype dtype);
Dtype parse_dtype(std::string_view name);         // throws bad_input; none of those in blocks, which weights alone are
Dtype parse_weight_dtype(std::string_view name);  // those too

struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // NaN stays NaN
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

struct f16 {
  std::uint16_t bits;
};

// The bits as those of a float 2^112 times too small; infinities and NaNs get their exponent.
inline float to_float(f16 value) {
  const std::uint32_t magnitude = (value.bits & 0x7fffu) << 13;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const std::uint32_t endless = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(scaled | endless | ((value.bits & 0x8000u) << 16));
}

// To the nearest, ties to even; beyond 65520 infinite.
inline f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t out = 0x7e00u;                                                  // NaN
  if (magnitude <= 0x7f800000u) out = magnitude >= 0x477ff000u ? 0x7c00u : 0u;  // infinite
  if (magnitude < 0x38800000u)                                                  // below 2^-14: by adding 1/2
    out = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  else if (magnitude < 0x477ff000u)
    out = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return {static_cast<std::uint16_t>(sign | out)};
}

// The scale of a block whose largest magnitude is `most`: most / 127, rounded up, lest a byte overflow. A block of
// magnitudes below 2^-119, where a scale would be subnormal, is zero; one with a value that is not finite is NaN
// throughout. By bf16 rounded up instead of f32 an error grows by at most 1 in 128, a block is 34 bytes instead of 36,
// and scale * byte is exact in f32, so that no fused or unfused multiply-add can change a bit.
inline bf16 int8_scale(float most) {
  if (!(most <= 0x1.fffffep127f)) return {0x7fc0};
  if (most < 0x1p-119f) return {0};
  return {static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(most / 127.0f) + 0xffffu) >> 16)};
}

}  // namespace weft
