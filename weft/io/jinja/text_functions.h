// What Python's strings can do, as templates ask for it: filters and methods share these.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::jinja {

enum class Ends { both, left, right };
std::string stripped(std::string_view text, Ends ends);                       // of spaces
std::string stripped(std::string_view text, Ends ends, std::string_view of);  // of these characters
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most = -1);
std::vector<std::string> split(std::string_view text, std::string_view by, std::int64_t most = -1);
std::vector<std::string> split(std::string_view text);  // at spaces, which go
std::string lowered(std::string_view text);
std::string raised(std::string_view text);  // to upper case, of ASCII letters
std::string capitalised(std::string_view text, bool every_word);
std::int64_t length_of(std::string_view text);  // in characters

}  // namespace weft::jinja
