// Ranks, rows and other counts are signed in Weft; standard containers index by std::size_t. at() is the one place where
// the sign is dropped: names[at(rank)].
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace weft
