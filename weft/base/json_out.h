// JSON that Weft writes: reports on standard output and files for other programs.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace weft {

// One line, its end included. Bytes that are no UTF-8, as names of files may have, become U+FFFD: a report that was
// worked for is not lost over a name.
template <typename Value>
std::string json_line(const Value& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace) + "\n";
}

// The same for people to read and edit: a line per value, indented by two.
template <typename Value>
std::string json_lines(const Value& value) {
  return value.dump(2, ' ', false, Value::error_handler_t::replace) + "\n";
}

template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace weft
