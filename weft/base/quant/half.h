// Half precision (IEEE binary16) as bits, to f32 and back. Without branches, so that compilers make vectors of loops.
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

// The exponent is rebiased by adding to the bits. Infinities and NaNs need the addition twice; subnormals are read as
// the fraction of the smallest normal number, from which it is then subtracted.
inline float half_to_float(std::uint16_t bits) {
  constexpr std::uint32_t kRebias = 112u << 23;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const std::uint32_t exponent = magnitude & 0x0f800000u;
  const float subnormal = std::bit_cast<float>(magnitude + kRebias + (1u << 23)) - std::bit_cast<float>(113u << 23);
  const std::uint32_t normal = magnitude + kRebias + (exponent == 0x0f800000u ? kRebias : 0u);
  const std::uint32_t result = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(result | ((bits & 0x8000u) << 16));
}

// To the nearest, ties to even; beyond the largest, infinity; a NaN stays one.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 2^16 and more
  if (magnitude < 0x38800000u) {  // below 2^-14: the addition leaves multiples of 2^-24 in the lowest bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

}  // namespace weft
