// Chakra traces by hand, as the format says: messages with their length before them, fields with number and wire type.
#pragma once

#include <cstdint>
#include <string>

namespace weft::netsim::chakra_words {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
inline std::string field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(value);
}
inline std::string bytes_field(int number, const std::string& text) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(text.size()) + text;
}
// `kind`: the number of the value's type among the schema's; 7 int32, 9 int64, 29 text.
inline std::string attribute(const std::string& name, int kind, std::uint64_t value) {
  return bytes_field(10, bytes_field(1, name) + field(kind, value));
}
inline std::string text_attribute(const std::string& name, const std::string& text) {
  return bytes_field(10, bytes_field(1, name) + bytes_field(29, text));
}
inline std::string message(const std::string& text) { return varint(text.size()) + text; }

inline const std::string kMetadata = message(bytes_field(1, "0.0.4"));

inline std::string node(std::uint64_t id, const std::string& name, std::uint64_t type, const std::string& rest) {
  return message(field(1, id) + bytes_field(2, name) + field(3, type) + rest);
}
inline std::string needs(std::uint64_t id) { return field(5, id); }
inline std::string compute(std::uint64_t id, std::uint64_t micros, const std::string& rest = "") {
  return node(id, "product", 4, field(7, micros) + rest);
}
inline std::string all_reduce(std::uint64_t id, const std::string& rest) {
  return node(id, "sum", 7, attribute("comm_type", 9, 0) + rest);
}
// type 5 sends, 6 receives
inline std::string transfer(std::uint64_t id, int type, std::uint64_t bytes, int from, int to,
                            const std::string& rest = "") {
  return node(id, "s", static_cast<std::uint64_t>(type),
              attribute("comm_size", 9, bytes) + attribute("comm_src", 7, static_cast<std::uint64_t>(from)) +
                  attribute("comm_dst", 7, static_cast<std::uint64_t>(to)) + rest);
}

}  // namespace weft::netsim::chakra_words
