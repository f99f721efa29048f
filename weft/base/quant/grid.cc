// Scales are found in two steps. For each stretch of values by itself several ranges are tried, each corrected by least
// squares for the integers it leads to, and again for the integers that the correction leads to. Then the stretches'
// scales become multiples of the block's: neighbouring multiples are tried, and the block's scales corrected for what
// was chosen, as long as the error falls. Sums have four lanes on every machine, so the bytes are the same on all.
#include "weft/base/quant/grid.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr int kTries = 3;  // ranges on either side of the plain one
constexpr float kTryStep = 0.5f;
constexpr int kCorrections = 3, kRounds = 3;
constexpr double kNoError = 1e300;

typedef float Lanes __attribute__((vector_size(16)));
typedef int IntLanes __attribute__((vector_size(16)));

inline __attribute__((always_inline)) Lanes load_lanes(const float* p) {
  Lanes out;
  std::memcpy(&out, p, sizeof out);
  return out;
}

inline __attribute__((always_inline)) double sum_of(const Lanes& v) {
  return (double{v[0]} + v[2]) + (double{v[1]} + v[3]);
}

// The nearest integers of low to high, moved to begin at 0.
inline __attribute__((always_inline)) Lanes nearest_lanes(const Lanes& value, float low, float high) {
  Lanes moved = value + (0.5f - low);
  moved = moved > 0 ? moved : Lanes{};
  const Lanes most = Lanes{} + (high - low + 0.5f);
  moved = moved < most ? moved : most;
  return __builtin_convertvector(__builtin_convertvector(moved, IntLanes), Lanes) + low;
}

int clamped(float value, int low, int high) {
  const float moved = value + (0.5f - static_cast<float>(low)), most = static_cast<float>(high - low) + 0.5f;
  return static_cast<int>(std::clamp(moved, 0.0f, most)) + low;  // cut, not floored: it is not negative
}

float half_of(float value) { return to_float(to_f16(value)); }

void put_half_at(float value, std::uint8_t* p) {
  const std::uint16_t bits = to_f16(value).bits;
  std::memcpy(p, &bits, sizeof bits);
}

// value = scale * q - min, with q of 0 to 15 and min of at least 0.
struct Affine {
  float scale = 0, min = 0;
};

struct Weighted {
  const float *x, *w;
};

// A part, and sums over it that do not depend on the integers.
struct WeightedPart {
  explicit WeightedPart(const Weighted& v) {
    Lanes sums[3] = {};
    for (std::size_t i = 0; i < 8; ++i) {
      x[i] = load_lanes(v.x + 4 * i), w[i] = load_lanes(v.w + 4 * i);
      sums[0] += w[i], sums[1] += w[i] * x[i], sums[2] += w[i] * x[i] * x[i];
    }
    sum = sum_of(sums[0]), sum_x = sum_of(sums[1]), sum_xx = sum_of(sums[2]);
  }

  Lanes x[8], w[8];
  double sum, sum_x, sum_xx;
};

// Sums over the integers that a scale and a minimum lead to.
struct IntegerSums {
  double q = 0, qq = 0, qx = 0;
};

IntegerSums integer_sums(const WeightedPart& part, const Affine& fit) {
  const float inverse = fit.scale > 0 ? 1 / fit.scale : 0;
  Lanes sums[3] = {};
  for (std::size_t i = 0; i < 8; ++i) {
    const Lanes q = nearest_lanes((part.x[i] + fit.min) * inverse, 0, 15), wq = part.w[i] * q;
    sums[0] += wq, sums[1] += wq * q, sums[2] += wq * part.x[i];
  }
  return {sum_of(sums[0]), sum_of(sums[1]), sum_of(sums[2])};
}

// Of these integers with any scale and minimum.
double error_of(const WeightedPart& part, const IntegerSums& sums, const Affine& fit) {
  const double scale = fit.scale, min = fit.min;
  return scale * scale * sums.qq + min * min * part.sum + part.sum_xx +
         2 * (min * part.sum_x - scale * min * sums.q - scale * sums.qx);
}

Affine fitted(const WeightedPart& part, const IntegerSums& sums) {
  const double determinant = part.sum * sums.qq - sums.q * sums.q;
  if (determinant > 1e-9 * part.sum * sums.qq) {
    const double scale = (part.sum * sums.qx - sums.q * part.sum_x) / determinant;
    const double min = (sums.q * sums.qx - sums.qq * part.sum_x) / determinant;
    if (min >= 0 && scale > 0) return {static_cast<float>(scale), static_cast<float>(min)};
  }
  return {sums.qq > 0 ? static_cast<float>(std::max(0.0, sums.qx / sums.qq)) : 0.0f, 0.0f};
}

Affine best_affine(const Weighted& v) {
  const float low = std::min(0.0f, *std::min_element(v.x, v.x + 32)), high = *std::max_element(v.x, v.x + 32);
  if (!(high > low)) return {0, -low};
  const WeightedPart part(v);
  Affine best;
  double least = kNoError;
  for (int t = -kTries; t <= kTries; ++t) {
    Affine fit{(high - low) / (15 + kTryStep * static_cast<float>(t)), -low};
    double before = kNoError;
    for (int i = 0; i < kCorrections; ++i) {
      const IntegerSums sums = integer_sums(part, fit);
      fit = fitted(part, sums);
      const double error = error_of(part, sums, fit);
      if (error < least) least = error, best = fit;
      if (!(error < 0.98 * before) || error > 1.3 * least) break;
      before = error;
    }
  }
  return best;
}

// A block of q4_k while its scales are sought.
struct AffineBlock {
  float d = 0, dmin = 0;
  std::array<int, 8> scale{}, min{};

  Affine part(std::size_t s) const { return {d * static_cast<float>(scale[s]), dmin * static_cast<float>(min[s])}; }
};

// For each part the multiples with the least error: scales beside the one it has, each with the minimum that suits its
// integers best. The sum of these errors.
double choose_multiples(std::span<const WeightedPart> parts, AffineBlock& block) {
  double sum = 0;
  for (std::size_t s = 0; s < 8; ++s) {
    const WeightedPart& part = parts[s];
    const int scale = block.scale[s], min = block.min[s];
    double least = kNoError;
    for (int a = std::max(0, scale - 1); a <= std::min(63, scale + 1); ++a) {
      Affine fit{block.d * static_cast<float>(a), block.dmin * static_cast<float>(min)};
      const IntegerSums sums = integer_sums(part, fit);
      int b = min;
      if (block.dmin > 0 && part.sum > 0)
        b = clamped(static_cast<float>((fit.scale * sums.q - part.sum_x) / (part.sum * block.dmin)), 0, 63);
      fit.min = block.dmin * static_cast<float>(b);
      const double error = error_of(part, sums, fit);
      if (error < least) least = error, block.scale[s] = a, block.min[s] = b;
    }
    sum += least;
  }
  return sum;
}

// d and dmin by least squares for the multiples and integers that are there.
void correct_block(std::span<const WeightedPart> parts, AffineBlock& block) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;  // a: scale times integer, b: minus minimum
  for (std::size_t s = 0; s < 8; ++s) {
    const IntegerSums sums = integer_sums(parts[s], block.part(s));
    const double scale = block.scale[s], min = block.min[s];
    aa += scale * scale * sums.qq, ab -= scale * min * sums.q, bb += min * min * parts[s].sum;
    ax += scale * sums.qx, bx -= min * parts[s].sum_x;
  }
  const double determinant = aa * bb - ab * ab;
  double d = aa > 0 ? ax / aa : 0, dmin = block.dmin;
  if (determinant > 1e-9 * aa * bb) d = (ax * bb - bx * ab) / determinant, dmin = (bx * aa - ax * ab) / determinant;
  if (!(d > 0) || dmin < 0) return;
  block.d = half_of(static_cast<float>(d)), block.dmin = half_of(static_cast<float>(dmin));
}

AffineBlock best_block(const Weighted& v) {
  std::array<Affine, 8> fits;
  std::vector<WeightedPart> parts;
  AffineBlock block;
  for (std::size_t s = 0; s < 8; ++s) {
    parts.emplace_back(Weighted{v.x + 32 * s, v.w + 32 * s});
    fits[s] = best_affine({v.x + 32 * s, v.w + 32 * s});
    block.d = std::max(block.d, fits[s].scale), block.dmin = std::max(block.dmin, fits[s].min);
  }
  block.d = half_of(block.d / 63), block.dmin = half_of(block.dmin / 63);
  for (std::size_t s = 0; s < 8; ++s) {
    block.scale[s] = block.d == 0 ? 0 : clamped(fits[s].scale / block.d, 0, 63);
    block.min[s] = block.dmin == 0 ? 0 : clamped(fits[s].min / block.dmin, 0, 63);
  }
  AffineBlock best = block;
  double least = kNoError;
  for (int round = 0; round < kRounds; ++round) {
    const double error = choose_multiples(parts, block);
    if (!(error < 0.999 * least)) break;
    least = error, best = block;
    correct_block(parts, block);
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

BlockGrid grid_q4_k(const Weighted& v, std::uint8_t* out) {
  const AffineBlock block = best_block(v);
  put_half_at(block.d, out), put_half_at(block.dmin, out + 2);
  BlockGrid grid{.low = 0, .high = 15};
  for (int s = 0; s < 8; ++s) {
    pack_scale_min(s, block.scale[at(s)], block.min[at(s)], out + 4);
    const Affine part = block.part(at(s));
    for (const int i : {2 * s, 2 * s + 1}) grid.step[at(i)] = part.scale, grid.shift[at(i)] = part.min;
  }
  return grid;
}

// Sums over the 16 values' integers of a scale: weighted squares, and products with the values.
struct ScaleSums {
  double qq = 0, qx = 0;
};

ScaleSums scale_sums(const Weighted& v, float scale) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  Lanes sums[2] = {};
  for (std::size_t i = 0; i < 4; ++i) {
    const Lanes x = load_lanes(v.x + 4 * i), q = nearest_lanes(x * inverse, -32, 31), wq = load_lanes(v.w + 4 * i) * q;
    sums[0] += wq * q, sums[1] += wq * x;
  }
  return {sum_of(sums[0]), sum_of(sums[1])};
}

// Less what it is with all integers zero.
double scale_error(const ScaleSums& sums, double scale) { return scale * (scale * sums.qq - 2 * sums.qx); }

// The scale of 16 values = scale * q, q of -32 to 31.
float best_scale(const Weighted& v) {
  const float most = *std::max_element(v.x, v.x + 16, [](float a, float b) { return std::abs(a) < std::abs(b); });
  if (most == 0) return 0;
  float best = 0;
  double least = kNoError;
  for (int t = -kTries; t <= kTries; ++t) {
    const ScaleSums sums = scale_sums(v, -most / (32 + kTryStep * static_cast<float>(t)));
    const double scale = sums.qq > 0 ? sums.qx / sums.qq : 0, error = scale_error(sums, scale);
    if (error < least) least = error, best = static_cast<float>(scale);
  }
  return best;
}

BlockGrid grid_q6_k(const Weighted& v, std::uint8_t* out) {
  std::array<float, 16> scales;
  for (std::size_t i = 0; i < 16; ++i) scales[i] = best_scale({v.x + 16 * i, v.w + 16 * i});
  const float most =
      *std::max_element(scales.begin(), scales.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float d = half_of(most / -128);
  put_half_at(d, out + 208);
  BlockGrid grid{.low = -32, .high = 31};
  for (std::size_t i = 0; i < 16 && d != 0; ++i) {
    const int multiple = clamped(scales[i] / d, -128, 127);
    double least = kNoError;
    for (int a = std::max(-128, multiple - 1); a <= std::min(127, multiple + 1); ++a) {
      const float step = d * static_cast<float>(a);
      const double error = scale_error(scale_sums({v.x + 16 * i, v.w + 16 * i}, step), step);
      if (error < least) least = error, grid.step[i] = step, out[192 + i] = static_cast<std::uint8_t>(a);
    }
  }
  return grid;
}

BlockGrid grid_small(Dtype dtype, const float* x, std::uint8_t* out) {
  const float most = *std::max_element(x, x + 32, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float d = half_of(dtype == Dtype::q8_0 ? std::abs(most) / 127 : most / -8);
  put_half_at(d, out);
  BlockGrid grid{.low = dtype == Dtype::q8_0 ? -127 : -8, .high = dtype == Dtype::q8_0 ? 127 : 7};
  grid.step.fill(d);
  return grid;
}

void or_in(std::uint8_t& byte, int bits) { byte = static_cast<std::uint8_t>(byte | bits); }

}  // namespace

int BlockGrid::nearest(std::int64_t j, float value) const {
  return clamped((value + shift[at(j / 16)]) * inverse[at(j / 16)], low, high);
}

float BlockGrid::value(std::int64_t j, int q) const {
  return step[at(j / 16)] * static_cast<float>(q) - shift[at(j / 16)];
}

BlockGrid choose_grid(Dtype dtype, const float* values, const float* importance, std::uint8_t* block) {
  std::array<float, 256> ones;
  if (importance == nullptr) ones.fill(1), importance = ones.data();
  std::memset(block, 0, num(block_shape(dtype).bytes));
  BlockGrid grid = dtype == Dtype::q4_k   ? grid_q4_k({values, importance}, block)
                   : dtype == Dtype::q6_k ? grid_q6_k({values, importance}, block)
                                          : grid_small(dtype, values, block);
  for (std::size_t i = 0; i < 16; ++i) grid.inverse[i] = std::abs(grid.step[i]) < 0x1p-126f ? 0 : 1 / grid.step[i];
  return grid;
}

void put_integers(Dtype dtype, const int* q, std::uint8_t* block) {
  for (int j = 0; j < block_shape(dtype).values; ++j) {
    const int s = j / 32, within = j % 32;
    if (dtype == Dtype::q8_0) {
      block[2 + j] = static_cast<std::uint8_t>(q[j]);
    } else if (dtype == Dtype::q4_0) {
      or_in(block[2 + j % 16], (q[j] + 8) << (j / 16 * 4));
    } else if (dtype == Dtype::q4_k) {
      or_in(block[16 + s / 2 * 32 + within], q[j] << (s % 2 * 4));
    } else {
      const int half = s / 4, quarter = s % 4, plus = q[j] + 32;
      or_in(block[half * 64 + quarter % 2 * 32 + within], (plus & 15) << (quarter / 2 * 4));
      or_in(block[128 + half * 32 + within], (plus >> 4) << (2 * quarter));
    }
  }
}

}  // namespace weft
