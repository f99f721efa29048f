// An n-d box of elements: [lo, hi) in every dimension. The one piece of geometry everything shares:
// tiles, chunks, pieces, shards and their intersections are boxes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace weft {

inline constexpr int kMaxDims = 6;

struct Box {
  int dims = 0;
  std::array<std::int64_t, kMaxDims> lo{};
  std::array<std::int64_t, kMaxDims> hi{};

  struct Span {
    std::int64_t lo, hi;
  };
  Box() = default;
  Box(std::initializer_list<Span> spans);  // Box{{0, 4}, {2, 8}}

  std::int64_t size(int dim) const { return hi[dim] - lo[dim]; }
  std::int64_t volume() const {
    std::int64_t product = 1;
    for (int d = 0; d < dims; ++d) product *= size(d);
    return product;
  }
  bool empty() const {
    for (int d = 0; d < dims; ++d)
      if (hi[d] <= lo[d]) return true;
    return false;
  }
  friend bool operator==(const Box& a, const Box& b) {
    if (a.dims != b.dims) return false;
    for (int d = 0; d < a.dims; ++d)
      if (a.lo[d] != b.lo[d] || a.hi[d] != b.hi[d]) return false;
    return true;
  }
};

bool overlaps(const Box& a, const Box& b);          // false when either is empty
Box intersect(const Box& a, const Box& b);          // may be empty
bool contains(const Box& outer, const Box& inner);  // an empty box is inside every box
bool same_shape(const Box& a, const Box& b);
std::string to_string(const Box& box);  // "[0:4, 2:8]"

// Where part i of `total` cut into `parts` begins; parts differ by at most one, larger ones first.
// cut(total, parts, parts) == total.
constexpr std::int64_t cut(std::int64_t total, std::int64_t parts, std::int64_t i) {
  const std::int64_t rest = total % parts;
  return i * (total / parts) + (i < rest ? i : rest);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace weft
