// exp of four floats at once: attention of a training step takes one of every score, and the library's takes them one
// by one. Relative error under 3e-7; below exp(-87) the result is exp(-87), which no softmax notices.
#pragma once

#include <cstdint>
#include <cstring>

#include "weft/base/index.h"

namespace weft {

typedef float Floats __attribute__((vector_size(16)));
typedef std::int32_t Ints __attribute__((vector_size(16)));
constexpr std::int64_t kFloats = 4;

// The first `lanes` from memory, the rest zero; and back.
inline Floats load_floats(const float* p, std::int64_t lanes = kFloats) {
  Floats v = {};
  std::memcpy(&v, p, num(lanes) * sizeof(float));
  return v;
}
inline void store_floats(Floats v, float* p, std::int64_t lanes = kFloats) {
  std::memcpy(p, &v, num(lanes) * sizeof(float));
}

// Calls block(i, lanes) for whole vectors of [begin, end), then for the rest.
template <typename Block>
inline void for_each_block(std::int64_t begin, std::int64_t end, const Block& block) {
  for (; begin + kFloats <= end; begin += kFloats) block(begin, kFloats);
  if (begin < end) block(begin, end - begin);
}

// 2^n * e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; r by two parts of ln 2, e^r by its series to r^6.
inline Floats exponential(Floats x) {
  constexpr float kLow = -87.0f, kHigh = 88.0f, kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
  x = x < kLow ? Floats{} + kLow : x;
  x = x > kHigh ? Floats{} + kHigh : x;
  const Floats n = (x * 1.44269504f + kRound) - kRound;
  const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats e = 1.0f + r * (1.0f / 6);
  e = 1.0f + r * (1.0f / 5) * e;
  e = 1.0f + r * (1.0f / 4) * e;
  e = 1.0f + r * (1.0f / 3) * e;
  e = 1.0f + r * (1.0f / 2) * e;
  e = 1.0f + r * e;
  const Ints bits = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats power;
  std::memcpy(&power, &bits, sizeof power);
  return e * power;
}

}  // namespace weft
