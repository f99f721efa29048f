#include "weft/base/quant/blocks.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

float half_at(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return to_float(f16{bits});
}

void part_q8_0(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + j]));
}

void part_q4_0(const std::uint8_t* block, float* out) {
  const float d = half_at(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((block[2 + j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((block[2 + j] >> 4) - 8);
  }
}

void part_q4_k(const std::uint8_t* block, int s, float* out) {
  const ScaleMin packed = scale_min(block + 4, s);
  const float scale = half_at(block) * static_cast<float>(packed.scale);
  const float min = half_at(block + 2) * static_cast<float>(packed.min);
  const std::uint8_t* q = block + 16 + s / 2 * 32;
  for (int j = 0; j < 32; ++j) out[j] = scale * static_cast<float>(s % 2 == 0 ? q[j] & 15 : q[j] >> 4) - min;
}

void part_q6_k(const std::uint8_t* block, int s, float* out) {
  const int half = s / 4, quarter = s % 4;
  const std::uint8_t* low = block + half * 64 + quarter % 2 * 32;
  const std::uint8_t* high = block + 128 + half * 32;
  const float d = half_at(block + 208);
  for (int j = 0; j < 32; ++j) {
    const int q = ((low[j] >> quarter / 2 * 4) & 15) | ((high[j] >> 2 * quarter) & 3) << 4;
    const auto scale = static_cast<std::int8_t>(block[192 + half * 8 + quarter * 2 + j / 16]);
    out[j] = d * static_cast<float>(scale) * static_cast<float>(q - 32);
  }
}

void part_of(Dtype dtype, const std::uint8_t* block, int s, float* out) {
  switch (dtype) {
    case Dtype::q8_0:
      return part_q8_0(block, out);
    case Dtype::q4_0:
      return part_q4_0(block, out);
    case Dtype::q4_k:
      return part_q4_k(block, s, out);
    default:
      return part_q6_k(block, s, out);
  }
}

}  // namespace

void dequantise(Dtype dtype, const std::byte* row, std::int64_t first, std::int64_t count, float* out) {
  if (!is_blocked(dtype)) bad_input("{} is no format of blocks; use q8_0, q4_0, q4_k or q6_k", to_string(dtype));
  const DtypeBlock shape = block_shape(dtype);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row);
  float part[kPart];
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = first + done, within = at % kPart;
    const std::int64_t some = std::min(kPart - within, count - done);
    const int s = static_cast<int>(at % shape.values / kPart);
    part_of(dtype, bytes + at / shape.values * shape.bytes, s, part);
    std::memcpy(out + done, part + within, static_cast<std::size_t>(some) * sizeof(float));
    done += some;
  }
}

}  // namespace weft
