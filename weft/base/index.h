// Ranks, rows and other numbers of things are signed in Weft; standard containers count by std::size_t. The sign is
// dropped and found again here, and nowhere else:
//   names[at(rank)]   values.resize(num(rows))   for (int i = 0; i < int_size(names); ++i)
// An enumerator is an index as well: times[at(Style::fused)].
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

namespace weft {

constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
template <typename Enum, typename = std::enable_if_t<std::is_enum_v<Enum>>>
constexpr std::size_t at(Enum index) {
  return static_cast<std::size_t>(index);
}
constexpr std::size_t num(std::int64_t count) { return static_cast<std::size_t>(count); }

template <typename Container>
constexpr int int_size(const Container& container) {
  return static_cast<int>(container.size());
}

}  // namespace weft
