// Inputs by position. A value is a hash of (stream, index), so that every rank can say what any other rank was given
// without holding it: that is what makes checking against a float64 reference cheap and independent of the plan.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace weft {

enum class Input : std::uint64_t { x = 1, w, table, index, addend };

constexpr std::uint64_t mixed(std::uint64_t z) {  // the finalizer of splitmix64
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// One input of one rank in one round; `part` tells tables apart.
constexpr std::uint64_t stream_of(Input input, int rank, std::uint64_t round, std::uint64_t part = 0) {
  return mixed(mixed(mixed(static_cast<std::uint64_t>(input) * 1021 + static_cast<std::uint64_t>(rank)) + round) +
               part);
}

// Uniform in [-1, 1), a multiple of 2^-23.
constexpr float value_at(std::uint64_t stream, std::int64_t index) {
  const std::uint64_t bits = mixed(stream + static_cast<std::uint64_t>(index)) >> 40;
  return static_cast<float>(static_cast<std::int64_t>(bits) - (1 << 23)) * 0x1p-23f;
}

constexpr std::int64_t index_at(std::uint64_t stream, std::int64_t position, std::int64_t rows) {
  return static_cast<std::int64_t>((mixed(stream + static_cast<std::uint64_t>(position)) >> 33) %
                                   static_cast<std::uint64_t>(rows));
}

// Popularity 1 / i^exponent for the i-th most popular of `rows` rows, by inverting the integral of the density: the
// share of row i is that of [i, i + 1). Popular rows are spread over the table by a hash, as ids of users are.
inline std::int64_t zipf_rank_at(std::uint64_t stream, std::int64_t position, std::int64_t rows, double exponent) {
  const double u = (mixed(stream + static_cast<std::uint64_t>(position)) >> 11) * 0x1p-53;
  const double end = static_cast<double>(rows) + 1, power = 1 - exponent;
  const double at = std::abs(power) < 1e-9 ? std::pow(end, u) : std::pow(u * (std::pow(end, power) - 1) + 1, 1 / power);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(at) - 1, 0, rows - 1);
}
inline std::int64_t zipf_index_at(std::uint64_t stream, std::int64_t position, std::int64_t rows, double exponent) {
  if (exponent <= 0) return index_at(stream, position, rows);
  const auto rank = static_cast<std::uint64_t>(zipf_rank_at(stream, position, rows, exponent));
  return static_cast<std::int64_t>(mixed(rank) % static_cast<std::uint64_t>(rows));
}

}  // namespace weft
