// Rounding weights to the formats of blocks. q8_0 and q4_0 are defined by arithmetic alone, and the bits are those of
// llama.cpp. The scales of q4_k and q6_k are a choice: several are tried for each stretch of values, each corrected by
// least squares for the integers it leads to, and the one with the smallest squared error is taken. The stretches'
// scales are then rounded to multiples of the block's, and the integers made again for what the reader will see.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/quant/blocks.h"

namespace weft {
namespace {

constexpr int kTries = 20;  // scales on either side of the plain one
constexpr float kTryStep = 0.09f;

// `value` as a half at p; what a reader makes of it.
float put_half(float value, std::uint8_t* p) {
  const std::uint16_t bits = to_f16(value).bits;
  std::memcpy(p, &bits, sizeof bits);
  return to_float(f16{bits});
}

int nearest(float value, int low, int high) {
  return static_cast<int>(std::clamp(std::floor(value + 0.5f), static_cast<float>(low), static_cast<float>(high)));
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

// values = scale * q - min, with q of 0 to 15 and min of at least 0.
struct Affine {
  float scale = 0, min = 0;
};

Affine fitted(const float* x, const std::array<int, 32>& q) {
  double sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
  for (std::size_t j = 0; j < 32; ++j) {
    sum_q += q[j], sum_qq += q[j] * q[j];
    sum_x += x[j], sum_qx += double{x[j]} * q[j];
  }
  const double determinant = 32 * sum_qq - sum_q * sum_q;
  if (determinant > 0) {
    const double scale = (32 * sum_qx - sum_q * sum_x) / determinant;
    const double min = (sum_q * sum_qx - sum_qq * sum_x) / determinant;
    if (min >= 0 && scale > 0) return {static_cast<float>(scale), static_cast<float>(min)};
  }
  return {sum_qq > 0 ? static_cast<float>(std::max(0.0, sum_qx / sum_qq)) : 0.0f, 0.0f};
}

Affine best_affine(const float* x) {
  const float low = std::min(0.0f, *std::min_element(x, x + 32)), high = *std::max_element(x, x + 32);
  if (!(high > low)) return {0, -low};
  Affine best;
  double least = INFINITY;
  for (int t = -kTries; t <= kTries; ++t) {
    const float inverse = (15 + kTryStep * static_cast<float>(t)) / (high - low);
    std::array<int, 32> q;
    for (std::size_t j = 0; j < 32; ++j) q[j] = nearest((x[j] - low) * inverse, 0, 15);
    const Affine fit = fitted(x, q);
    double error = 0;
    for (std::size_t j = 0; j < 32; ++j) {
      const double off = double{fit.scale} * q[j] - fit.min - x[j];
      error += off * off;
    }
    if (error < least) least = error, best = fit;
  }
  return best;
}

void pack_scale_min(int s, int scale, int min, std::uint8_t* packed) {
  const auto put = [&](int i, int bits) { packed[i] = static_cast<std::uint8_t>(packed[i] | bits); };
  if (s < 4) return put(s, scale), put(s + 4, min);
  put(s + 4, (scale & 15) | (min & 15) << 4);
  put(s - 4, (scale >> 4) << 6);
  put(s, (min >> 4) << 6);
}

void block_q4_k(const float* x, std::uint8_t* out) {
  std::memset(out, 0, 144);
  std::array<Affine, 8> parts;
  float most_scale = 0, most_min = 0;
  for (std::size_t s = 0; s < 8; ++s) {
    parts[s] = best_affine(x + 32 * s);
    most_scale = std::max(most_scale, parts[s].scale), most_min = std::max(most_min, parts[s].min);
  }
  const float d = put_half(most_scale / 63, out), dmin = put_half(most_min / 63, out + 2);
  for (int s = 0; s < 8; ++s) {
    const Affine& part = parts[static_cast<std::size_t>(s)];
    const int scale = d == 0 ? 0 : nearest(part.scale / d, 0, 63),
              min = dmin == 0 ? 0 : nearest(part.min / dmin, 0, 63);
    pack_scale_min(s, scale, min, out + 4);
    const float step = d * static_cast<float>(scale), shift = dmin * static_cast<float>(min);
    for (int j = 0; j < 32; ++j) {
      const int q = step == 0 ? 0 : nearest((x[32 * s + j] + shift) / step, 0, 15);
      std::uint8_t& byte = out[16 + s / 2 * 32 + j];
      byte = static_cast<std::uint8_t>(byte | q << (s % 2 * 4));
    }
  }
}

// The scale of 16 values = scale * q, q of -32 to 31.
float best_scale(const float* x) {
  const float most = *std::max_element(x, x + 16, [](float a, float b) { return std::abs(a) < std::abs(b); });
  if (most == 0) return 0;
  float best = 0;
  double least = INFINITY;
  for (int t = -kTries; t <= kTries; ++t) {
    const float inverse = -(32 + kTryStep * static_cast<float>(t)) / most;
    double sum_qq = 0, sum_qx = 0, error = 0;
    std::array<int, 16> q;
    for (std::size_t j = 0; j < 16; ++j) {
      q[j] = nearest(x[j] * inverse, -32, 31);
      sum_qq += q[j] * q[j], sum_qx += double{x[j]} * q[j];
    }
    const double scale = sum_qq > 0 ? sum_qx / sum_qq : 0;
    for (std::size_t j = 0; j < 16; ++j) error += (scale * q[j] - x[j]) * (scale * q[j] - x[j]);
    if (error < least) least = error, best = static_cast<float>(scale);
  }
  return best;
}

void block_q6_k(const float* x, std::uint8_t* out) {
  std::memset(out, 0, 210);
  std::array<float, 16> scales;
  for (std::size_t i = 0; i < 16; ++i) scales[i] = best_scale(x + 16 * i);
  const float most =
      *std::max_element(scales.begin(), scales.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float d = put_half(most / -128, out + 208);
  for (int s = 0; s < 8; ++s)
    for (int j = 0; j < 32; ++j) {
      const int half = s / 4, quarter = s % 4, of = s * 2 + j / 16;
      const int scale = d == 0 ? 0 : nearest(scales[static_cast<std::size_t>(of)] / d, -128, 127);
      out[192 + of] = static_cast<std::uint8_t>(scale);
      const float step = d * static_cast<float>(scale);
      const int q = (step == 0 ? 0 : nearest(x[32 * s + j] / step, -32, 31)) + 32;
      std::uint8_t& low = out[half * 64 + quarter % 2 * 32 + j];
      std::uint8_t& high = out[128 + half * 32 + j];
      low = static_cast<std::uint8_t>(low | (q & 15) << (quarter / 2 * 4));
      high = static_cast<std::uint8_t>(high | (q >> 4) << (2 * quarter));
    }
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
    if (dtype == Dtype::q4_k) block_q4_k(values, bytes);
    if (dtype == Dtype::q6_k) block_q6_k(values, bytes);
  }
}

}  // namespace weft
