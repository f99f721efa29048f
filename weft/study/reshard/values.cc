#include "weft/study/reshard/values.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

std::uint64_t spread_bits(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

// A normal number of any sign, about 1 in size, with as many bits of fraction as the dtype keeps: 15 or 31 bits of
// hash.
std::uint32_t float_bits(std::uint64_t hash, bool narrow) {
  const auto bits = static_cast<std::uint32_t>(hash);
  const std::uint32_t sign = bits & 0x80000000u, exponent = 64u + ((bits >> 23) & 0x7fu);
  return (sign | (exponent << 23) | (bits & 0x7fffffu)) & (narrow ? 0xffff0000u : 0xffffffffu);
}

// One element as the bytes of a type.
template <Dtype dtype>
auto element(std::uint64_t hash, Dtype range) {
  if constexpr (dtype == Dtype::f32) return float_bits(hash, range == Dtype::bf16);
  if constexpr (dtype == Dtype::bf16) return static_cast<std::uint16_t>(float_bits(hash, true) >> 16);
  if constexpr (dtype == Dtype::i32) return static_cast<std::uint32_t>(hash);
  if constexpr (dtype == Dtype::i64) return hash;
  if constexpr (dtype == Dtype::u8) return static_cast<std::uint8_t>(hash >> 24);
}

template <Dtype dtype, typename T>
std::string shown(T bits) {
  if constexpr (dtype == Dtype::f32) return fmt::format("{:.9g}", std::bit_cast<float>(bits));
  if constexpr (dtype == Dtype::bf16) return fmt::format("{:.5g}", to_float(bf16{bits}));
  if constexpr (dtype == Dtype::i32) return fmt::format("{}", static_cast<std::int32_t>(bits));
  if constexpr (dtype == Dtype::i64) return fmt::format("{}", static_cast<std::int64_t>(bits));
  if constexpr (dtype == Dtype::u8) return fmt::format("{}", bits);
}

// Calls f(number of its first element, corner, row of the memory) for every row of the box along the last dimension.
template <typename F>
void for_each_row(const Shape& shape, const Box& box, F&& f) {
  if (box.empty()) return;
  std::array<std::int64_t, kMaxDims> corner = box.lo;
  const int last = box.dims - 1;
  const std::int64_t rows = box.volume() / box.size(last);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t first = 0;
    for (int d = 0; d < int_size(shape); ++d) first = first * shape[at(d)] + corner[at(d)];
    f(first, corner, row);
    for (int d = last - 1; d >= 0; --d) {
      if (++corner[at(d)] < box.hi[at(d)]) break;
      corner[at(d)] = box.lo[at(d)];
    }
  }
}

template <Dtype dtype>
void fill(const PlacedValues& values, const Box& box, void* memory) {
  using T = decltype(element<dtype>(0, dtype));
  const std::int64_t cols = box.size(box.dims - 1);
  for_each_row(values.shape, box, [&](std::int64_t first, const auto&, std::int64_t row) {
    T* out = static_cast<T*>(memory) + row * cols;
    for (std::int64_t j = 0; j < cols; ++j)
      out[j] = element<dtype>(spread_bits(values.seed + static_cast<std::uint64_t>(first + j)), values.range);
  });
}

template <Dtype dtype>
std::optional<WrongElement> check(const PlacedValues& values, const Box& box, const void* memory, std::int64_t* wrong) {
  using T = decltype(element<dtype>(0, dtype));
  std::optional<WrongElement> found;
  const std::int64_t cols = box.size(box.dims - 1);
  for_each_row(values.shape, box, [&](std::int64_t first, const auto& corner, std::int64_t row) {
    const T* in = static_cast<const T*>(memory) + row * cols;
    const auto expected = [&](std::int64_t j) {
      return element<dtype>(spread_bits(values.seed + static_cast<std::uint64_t>(first + j)), values.range);
    };
    std::int64_t differ = 0;
    for (std::int64_t j = 0; j < cols; ++j) differ += in[j] != expected(j);
    *wrong += differ;
    if (differ == 0 || found) return;
    std::int64_t j = 0;
    while (in[j] == expected(j)) ++j;
    found.emplace();
    found->element.assign(corner.begin(), corner.begin() + box.dims);
    found->element.back() += j;
    found->expected = shown<dtype>(expected(j));
    found->found = shown<dtype>(in[j]);
  });
  return found;
}

// Calls f.template operator()<dtype>() for the dtype at hand.
template <typename F>
auto with_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::f32:
      return f.template operator()<Dtype::f32>();
    case Dtype::bf16:
      return f.template operator()<Dtype::bf16>();
    case Dtype::f16:  // moved and not converted: 16 bits like others
      return f.template operator()<Dtype::bf16>();
    case Dtype::i32:
      return f.template operator()<Dtype::i32>();
    case Dtype::i64:
      return f.template operator()<Dtype::i64>();
    case Dtype::u8:
      return f.template operator()<Dtype::u8>();
    default:
      break;  // formats of sums on the wire and of a model's weights: of no tensor
  }
  fail(Code::internal, "no such dtype");
}

}  // namespace

PlacedValues values_of(const Transfer& transfer, int index, std::uint64_t round) {
  PlacedValues values{transfer.destination.shape, transfer.destination.dtype, 0};
  for (const Part& part : transfer.parts)
    if (part.tensor.dtype == Dtype::bf16) values.range = Dtype::bf16;
  values.seed = spread_bits(static_cast<std::uint64_t>(index) * 1'000'003u + round + 1);
  return values;
}

void fill_values(const PlacedValues& values, const Box& box, Dtype dtype, void* memory) {
  with_dtype(dtype, [&]<Dtype d>() { fill<d>(values, box, memory); });
}

std::optional<WrongElement> check_values(const PlacedValues& values, const Box& box, Dtype dtype, const void* memory,
                                         std::int64_t* wrong) {
  return with_dtype(dtype, [&]<Dtype d>() { return check<d>(values, box, memory, wrong); });
}

}  // namespace weft
