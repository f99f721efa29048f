// Half precision and bf16 to f32, without branches so that the compiler makes vectors of the loops.
#include <bit>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/tensor/safetensors.h"

namespace weft {
namespace {

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// The exponent is rebiased by adding to the bits. Infinities and NaNs need the addition twice; subnormals are read as
// the fraction of the smallest normal number, from which it is then subtracted.
float from_f16(std::uint16_t bits) {
  constexpr std::uint32_t kRebias = 112u << 23;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const std::uint32_t exponent = magnitude & 0x0f800000u;
  const float subnormal = std::bit_cast<float>(magnitude + kRebias + (1u << 23)) - std::bit_cast<float>(113u << 23);
  const std::uint32_t normal = magnitude + kRebias + (exponent == 0x0f800000u ? kRebias : 0u);
  const std::uint32_t result = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(result | ((bits & 0x8000u) << 16));
}

template <float (*from)(std::uint16_t)>
void widen_halves(const std::byte* data, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, data + 2 * i, sizeof bits);
    out[i] = from(bits);
  }
}

}  // namespace

void widen(const StoredTensor& tensor, std::int64_t first, std::int64_t count, float* out) {
  if (first < 0 || count < 0 || first > tensor.elements() || count > tensor.elements() - first)
    bad_input("tensor \"{}\" has {} elements; {} from element {} on are not in it", tensor.name, tensor.elements(),
              count, first);
  if (count == 0) return;
  const std::byte* data = tensor.data + num(first) * size_of(tensor.dtype);
  switch (tensor.dtype) {
    case StoredDtype::f32:
      std::memcpy(out, data, num(count) * sizeof(float));
      break;
    case StoredDtype::f16:
      widen_halves<from_f16>(data, count, out);
      break;
    case StoredDtype::bf16:
      widen_halves<from_bf16>(data, count, out);
      break;
  }
}

}  // namespace weft
