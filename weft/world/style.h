// How a product and its collective go together. One word for it in engines, studies, tables and flags.
//   sequential  the product, then the collective
//   panels      the product in a few panels, each sent while the next is made
//   fused       one op: tiles leave as they are made
//   compute     the same product and no collective: the floor that the others are measured against. What would have
//               come from other ranks is whatever lies there
#pragma once

#include <array>
#include <string_view>

namespace weft {

enum class Style { sequential, panels, fused, compute };
inline constexpr std::array kStyles{Style::sequential, Style::panels, Style::fused, Style::compute};

const char* to_string(Style style);
Style parse_style(std::string_view name);  // throws bad_input; knows `decomposed` and `alone`, the words of before

}  // namespace weft
