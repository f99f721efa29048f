#include "weft/reshard/build/tile.h"

#include <algorithm>
#include <cmath>

namespace weft::resharding {
namespace {

// Below, a wake-up costs more than the bytes (a tile of 64 KB takes 50 us at 10 Gbit/s); above, staging of a wire holds
// too few.
constexpr std::int64_t kLeastBytes = std::int64_t{64} << 10, kMostBytes = std::int64_t{1} << 20;
// Of a chunk that nobody passes on: chunks that share NICs take turns by tiles (nine cases at 64 MB, 1 Gbit/s, case
// 4: 1.03 x makespan at 128 and 256 KB, 1.05 at 512 KB, 1.06 at 1 MB).
constexpr std::int64_t kDirectBytes = std::int64_t{256} << 10;

// On the wire a tile takes at least this many times as long as its message takes the ranks: NICs of 50 GB/s need tiles
// of megabytes, or ranks could not keep up.
constexpr double kMessages = 8;

// The size of equal parts, of at most `most` each.
std::int64_t even(std::int64_t total, std::int64_t most) {
  most = std::clamp<std::int64_t>(most, 1, total);
  return ceil_div(total, ceil_div(total, most));
}

}  // namespace

// K tiles of bytes / K take (K + hops - 1) * (bytes / K / rate + message): least at K^2 = (hops - 1) * bytes / rate /
// message.
std::int64_t best_tile_bytes(const TileQuestion& q) {
  const auto least = static_cast<std::int64_t>(kMessages * q.message_s * q.bytes_per_s);
  if (q.hops < 2 || q.message_s <= 0) return std::max(kDirectBytes, least);
  const double bytes = q.bytes;
  const double best = std::sqrt(bytes * q.bytes_per_s * q.message_s / (q.hops - 1));
  return std::clamp(static_cast<std::int64_t>(best), std::max(kLeastBytes, least), std::max(kMostBytes, least));
}

std::array<std::int64_t, 2> tile_for(const Box& box, Dtype dtype, std::int64_t tile_bytes) {
  const auto size = size_of(dtype);
  std::int64_t inner = size;
  for (int d = 2; d < box.dims; ++d) inner *= box.size(d);
  const std::int64_t columns = box.dims > 1 ? box.size(1) : 1;
  if (inner * columns <= tile_bytes) return {even(box.size(0), tile_bytes / (inner * columns)), 0};
  return {1, box.dims > 1 ? even(columns, tile_bytes / inner) : 0};
}

}  // namespace weft::resharding
