// Rounding weights to the formats of blocks. q8_0 and q4_0 are defined by arithmetic alone, and the bits are those of
// llama.cpp. The scales of q4_k and q6_k are a choice (grid.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/quant/grid.h"

namespace weft {
namespace {

void put_half(float value, std::uint8_t* p) {
  const std::uint16_t bits = to_f16(value).bits;
  std::memcpy(p, &bits, sizeof bits);
}

// 0 where it would be infinite: such a d is 0 as a half.
float inverse_of(float d) { return std::abs(d) < 0x1p-126f ? 0 : 1 / d; }

void block_q8_0(const float* x, std::uint8_t* out) {
  float most = 0;
  for (int j = 0; j < 32; ++j) most = std::max(most, std::abs(x[j]));
  const float d = most / 127, inverse = inverse_of(d);
  put_half(d, out);
  for (int j = 0; j < 32; ++j) out[2 + j] = static_cast<std::uint8_t>(static_cast<int>(std::round(x[j] * inverse)));
}

void block_q4_0(const float* x, std::uint8_t* out) {
  const float* most = std::max_element(x, x + 32, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float d = *most / -8, inverse = inverse_of(d);
  put_half(d, out);
  const auto q = [&](float value) { return std::min(15, static_cast<int>(value * inverse + 8.5f)); };
  for (int j = 0; j < 16; ++j) out[2 + j] = static_cast<std::uint8_t>(q(x[j]) | q(x[j + 16]) << 4);
}

void block_by_grid(Dtype dtype, const float* x, std::uint8_t* out) {
  const BlockGrid grid = choose_grid(dtype, x, nullptr, out);
  std::array<int, 256> q;
  for (int j = 0; j < 256; ++j) q[at(j)] = grid.nearest(j, x[j]);
  put_integers(dtype, q.data(), out);
}

}  // namespace

void quantise(Dtype dtype, std::int64_t count, const float* values, std::byte* out) {
  if (!is_blocked(dtype)) bad_input("{} is no format of blocks; use q8_0, q4_0, q4_k or q6_k", to_string(dtype));
  const DtypeBlock shape = block_shape(dtype);
  if (count < 0 || count % shape.values != 0)
    bad_input("{} values are no whole number of {} blocks of {}; use another format", count, to_string(dtype),
              shape.values);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out);
  for (std::int64_t at = 0; at < count; at += shape.values, values += shape.values, bytes += shape.bytes) {
    for (std::int64_t j = 0; j < shape.values; ++j)
      if (!std::isfinite(values[j])) bad_input("value {} is {}; weights in blocks are finite", at + j, values[j]);
    if (dtype == Dtype::q8_0) block_q8_0(values, bytes);
    if (dtype == Dtype::q4_0) block_q4_0(values, bytes);
    if (dtype == Dtype::q4_k || dtype == Dtype::q6_k) block_by_grid(dtype, values, bytes);
  }
}

}  // namespace weft
