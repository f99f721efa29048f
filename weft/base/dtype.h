// Element types, and bf16 as bits: the upper half of a float, rounded to nearest even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

enum class Dtype { f32, bf16, i32, i64, u8 };

constexpr std::size_t size_of(Dtype dtype) {
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
  }
  return 0;
}

std::string_view to_string(Dtype dtype);
Dtype parse_dtype(std::string_view name);  // throws bad_input

struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // NaN stays NaN
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace weft
