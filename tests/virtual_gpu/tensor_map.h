// What a CUtensorMap of a virtual GPU says: a matrix in rows that is loaded and stored in boxes of 128 bytes per row,
// swizzled. What lies outside the matrix is read as zeros and not written.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/virtual_gpu/grid.h"

namespace virtual_gpu {

struct TensorMap {
  std::uint8_t* data = nullptr;
  std::int64_t rows = 0, cols = 0, pitch = 0;  // pitch in bytes; elements have two
  std::int32_t box_rows = 0, box_cols = 0;

  int box_bytes() const { return box_rows * box_cols * 2; }
  bool holds(std::int64_t row, std::int64_t col) const { return row >= 0 && row < rows && col >= 0 && col < cols; }
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

inline TensorMap decoded(const CUtensorMap& map) {
  TensorMap out;
  std::memcpy(static_cast<void*>(&out), &map, sizeof(out));
  return out;
}

// Calls each(place in the box, row, column) for parts of 16 bytes that lie in the matrix, wholly or not.
template <typename Each>
void for_each_part(const TensorMap& map, int x, int y, Each&& each) {
  for (int row = 0; row < map.box_rows; ++row)
    for (int part = 0; part < map.box_cols / 8; ++part)
      each(static_cast<std::uint32_t>(row * 128 + (part ^ (row & 7)) * 16), std::int64_t{y} + row,
           std::int64_t{x} + part * 8);
}

inline void load(const TensorMap& map, Cta& cta, std::uint32_t at, int x, int y) {
  std::uint8_t* to = shared_at(cta, at, static_cast<std::uint32_t>(map.box_bytes()));
  for_each_part(map, x, y, [&](std::uint32_t place, std::int64_t row, std::int64_t col) {
    std::memset(to + place, 0, 16);
    for (int i = 0; i < 8; ++i)
      if (map.holds(row, col + i)) std::memcpy(to + place + 2 * i, map.data + row * map.pitch + (col + i) * 2, 2);
  });
}

inline void store(const TensorMap& map, const std::vector<std::uint8_t>& from, int x, int y) {
  for_each_part(map, x, y, [&](std::uint32_t place, std::int64_t row, std::int64_t col) {
    for (int i = 0; i < 8; ++i)
      if (map.holds(row, col + i))
        std::memcpy(map.data + row * map.pitch + (col + i) * 2, from.data() + place + 2 * i, 2);
  });
}

}  // namespace virtual_gpu
