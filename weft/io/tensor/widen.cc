// Half precision, bf16 and blocks to f32, halves without branches so that the compiler makes vectors of the loops.
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/io/tensor/safetensors.h"

namespace weft {
namespace {

float from_bf16(std::uint16_t bits) { return to_float(bf16{bits}); }
float from_f16(std::uint16_t bits) { return to_float(f16{bits}); }

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
  if (is_blocked(tensor.dtype)) return dequantise(blocked_dtype(tensor.dtype), tensor.data, first, count, out);
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
    default:  // in blocks: done above
      break;
  }
}

}  // namespace weft
