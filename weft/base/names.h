// Names of enumerators: one table a type gives both directions, so C++, CLI and JSON cannot drift apart.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/error.h"

namespace weft {

template <typename T, std::size_t n>
using Names = std::array<std::pair<T, std::string_view>, n>;

template <typename T, std::size_t n>
std::string_view name_of(const Names<T, n>& names, T value) {
  for (const auto& [candidate, name] : names)
    if (candidate == value) return name;
  return "unknown";
}

// Accepts `-` for `_`. Throws bad_input naming the value and the choices.
template <typename T, std::size_t n>
T parse_name(const Names<T, n>& names, std::string_view what, std::string_view text) {
  std::string wanted(text);
  for (char& c : wanted)
    if (c == '-') c = '_';
  std::string choices;
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
    choices += (choices.empty() ? "" : ", ") + std::string(name);
  }
  bad_input("unknown {} \"{}\"; use one of {}", what, text, choices);
}

}  // namespace weft
