#include "weft/base/json.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("line {}, column {}", line, column);
}

// Before parsing, so that no depth of brackets reaches recursive code, and no text becomes more than memory holds.
void check_extent(std::string_view text, std::string_view where, const JsonLimits& limits) {
  int depth = 0;
  std::size_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > limits.depth)
        bad_input("{}: nested more than {} deep at {}; flatten it", where, limits.depth, line_and_column(text, i));
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' || c == ':') {
      ++values;
    }
  }
  if (values > limits.values)
    bad_input("{}: holds {} numbers, strings, lists and names; at most {} are read", where, values, limits.values);
}

// nlohmann's message after its own prefix and position: "[json.exception...] parse error at line 1, column
// 3: syntax error while parsing ...".
std::string_view reason_of(std::string_view what) {
  const std::size_t column = what.find("column ");
  const std::size_t colon = what.find(": ", column == std::string_view::npos ? 0 : column);
  return colon == std::string_view::npos ? what : what.substr(colon + 2);
}

// A value as it stands in the file, short enough for a message.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

const Json& field(const Json& object, std::string_view key, std::string_view where, std::string_view wanted) {
  const Json* value = find_field(object, key, where);
  if (!value) bad_input("{}: \"{}\" is missing; give {}", where, key, wanted);
  return *value;
}

[[noreturn]] void refuse(const Json& value, std::string_view key, std::string_view where, std::string_view wanted) {
  bad_input("{}: \"{}\" is {}; give {}", where, key, shown(value), wanted);
}

std::string int_wanted(std::int64_t min, std::int64_t max) {
  if (min == INT64_MIN && max == INT64_MAX) return "a whole number";
  if (max == INT64_MAX) return fmt::format("a whole number of at least {}", min);
  if (min == INT64_MIN) return fmt::format("a whole number of at most {}", max);
  return fmt::format("a whole number from {} to {}", min, max);
}

bool is_int_within(const Json& value, std::int64_t min, std::int64_t max) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) return false;
  const auto number = value.get<std::int64_t>();
  return number >= min && number <= max;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    bad_input("{}: {} bytes of JSON; at most {} are read", where, text.size(), limits.bytes);
  check_extent(text, where, limits);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const std::size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    bad_input("{}: not JSON at {}: {}", where, line_and_column(text, offset), reason_of(error.what()));
  } catch (const Json::exception& error) {  // a number that no double can hold
    bad_input("{}: not usable JSON: {}", where, reason_of(error.what()));
  }
}

std::string quoted(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) bad_input("cannot open \"{}\": {}; give the path of a readable file", path, std::strerror(errno));
  std::string text;
  std::array<char, 65536> block;
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    if (text.size() + got > max_bytes)
      bad_input("\"{}\" is larger than {} bytes; give a smaller file", path, max_bytes);
    text.append(block.data(), got);
  }
  if (std::ferror(file.get())) bad_input("cannot read \"{}\": {}; give a plain file", path, std::strerror(errno));
  return text;
}

Json load_json(const std::string& path, const JsonLimits& limits) {
  return parse_json(read_text_file(path, limits.bytes), path, limits);
}

const Json* find_field(const Json& object, std::string_view key, std::string_view where) {
  if (!object.is_object())
    bad_input("{}: {} stands where an object {{...}} with \"{}\" should", where, shown(object), key);
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::int64_t get_int(const Json& object, std::string_view key, std::string_view where, std::int64_t min,
                     std::int64_t max) {
  const std::string wanted = int_wanted(min, max);
  const Json& value = field(object, key, where, wanted);
  if (!is_int_within(value, min, max)) refuse(value, key, where, wanted);
  return value.get<std::int64_t>();
}

int get_small(const Json& object, std::string_view key, std::string_view where, std::int64_t min, std::int64_t max) {
  return static_cast<int>(get_int(object, key, where, min, max));
}

double get_double(const Json& object, std::string_view key, std::string_view where, double min, double max) {
  const std::string wanted = fmt::format("a number from {} to {}", min, max);
  const Json& value = field(object, key, where, wanted);
  if (!value.is_number()) refuse(value, key, where, wanted);
  const double number = value.get<double>();
  if (!(number >= min && number <= max)) refuse(value, key, where, wanted);  // also where it is NaN
  return number;
}

bool get_bool(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = field(object, key, where, "true or false");
  if (!value.is_boolean()) refuse(value, key, where, "true or false");
  return value.get<bool>();
}

std::string get_string(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = field(object, key, where, "a string");
  if (!value.is_string()) refuse(value, key, where, "a string");
  return value.get<std::string>();
}

const Json& get_array(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = field(object, key, where, "an array [...]");
  if (!value.is_array()) refuse(value, key, where, "an array [...]");
  return value;
}

const Json& get_object(const Json& object, std::string_view key, std::string_view where) {
  const Json& value = field(object, key, where, "an object {...}");
  if (!value.is_object()) refuse(value, key, where, "an object {...}");
  return value;
}

std::vector<std::int64_t> get_ints(const Json& object, std::string_view key, std::string_view where, std::int64_t min,
                                   std::int64_t max) {
  std::vector<std::int64_t> result;
  for (const Json& value : get_array(object, key, where)) {
    if (!is_int_within(value, min, max))
      bad_input("{}: item {} of \"{}\" is {}; give {}", where, result.size(), key, shown(value), int_wanted(min, max));
    result.push_back(value.get<std::int64_t>());
  }
  return result;
}

void check_fields(const Json& object, std::span<const std::string_view> known, std::string_view where) {
  if (!object.is_object()) bad_input("{}: {} stands where an object {{...}} should", where, shown(object));
  for (const auto& item : object.items())
    if (std::find(known.begin(), known.end(), item.key()) == known.end())
      bad_input("{}: unknown field \"{}\"; known are {}", where, item.key(), fmt::join(known, ", "));
}

}  // namespace weft
