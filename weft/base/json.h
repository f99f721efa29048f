// Checked reading of JSON for every loader: files come from users and from other programs, so nothing in
// them is trusted. Each accessor either gives a value of the asked type and range or throws bad_input with
// the file, the field, the value there and the remedy. Include <nlohmann/json.hpp> where you use the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace weft {

using Json = nlohmann::json;

struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;
  int depth = 64;  // of nested arrays and objects; JSON is printed and freed recursively
  // Numbers, strings, arrays, objects and names in objects, about: each takes 16 to 200 bytes of memory, however short
  // its text.
  std::size_t values = SIZE_MAX;
};

// `where` is what the message begins with: a file name, or "command line". Errors give line and column.
Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});
Json load_json(const std::string& path, const JsonLimits& limits = {});  // the file at `path`

std::string quoted(std::string_view text);  // as a JSON string, with its quotes

// The text of a file of at most `max_bytes`. Throws bad_input where it cannot be opened or is larger.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

// Fields of an object. Each throws bad_input if `object` is no object, or the field is missing, of another
// type, or out of range (both ends allowed).
std::int64_t get_int(const Json& object, std::string_view key, std::string_view where, std::int64_t min = INT64_MIN,
                     std::int64_t max = INT64_MAX);
int get_small(const Json& object, std::string_view key, std::string_view where, std::int64_t min,
              std::int64_t max);  // an int, which holds both ends
double get_double(const Json& object, std::string_view key, std::string_view where, double min, double max);
bool get_bool(const Json& object, std::string_view key, std::string_view where);
std::string get_string(const Json& object, std::string_view key, std::string_view where);
const Json& get_array(const Json& object, std::string_view key, std::string_view where);
const Json& get_object(const Json& object, std::string_view key, std::string_view where);
std::vector<std::int64_t> get_ints(const Json& object, std::string_view key, std::string_view where,
                                   std::int64_t min = INT64_MIN, std::int64_t max = INT64_MAX);

// The field, or null where the object has none. For fields that may be left out.
const Json* find_field(const Json& object, std::string_view key, std::string_view where);

// Throws bad_input on a field that is not in `known`: a mistyped optional field must not pass in silence.
void check_fields(const Json& object, std::span<const std::string_view> known, std::string_view where);
inline void check_fields(const Json& object, std::initializer_list<std::string_view> known, std::string_view where) {
  check_fields(object, std::span(known.begin(), known.size()), where);
}

}  // namespace weft
