// Values for the kernel tests: a fixed sequence, so that a failure repeats.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/kernel/reference.h"

namespace weft {

inline std::vector<float> random_floats(std::int64_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(num(count));
  for (float& value : values) value = distribution(engine);
  return values;
}

// A matrix of any float dtype, or one row of int8, as bytes.
inline std::vector<char> random_bytes(std::int64_t count, Dtype dtype, unsigned seed) {
  const std::vector<float> values = random_floats(count, seed);
  std::vector<char> bytes(num(row_bytes(dtype, count)));
  if (dtype == Dtype::int8) {
    quantise_naive(count, values.data(), reinterpret_cast<std::byte*>(bytes.data()));
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bf16 half = to_bf16(values[i]);
    const f16 ieee = to_f16(values[i]);
    const void* from = dtype == Dtype::bf16 ? static_cast<const void*>(&half) : &values[i];
    if (dtype == Dtype::f16) from = &ieee;
    std::memcpy(bytes.data() + i * size_of(dtype), from, size_of(dtype));
  }
  return bytes;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace weft
