#include "cli/flag_values.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "weft/base/error.h"

namespace weft::cli {

void check_whole(const std::string& flag, const std::string& text, std::int64_t least, std::uint64_t most) {
  const bool negative = text.starts_with('-');
  std::uint64_t size = 0;
  const char *begin = text.data() + (negative ? 1 : 0), *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, size);
  if (begin == end || stop != end) bad_input("{} is \"{}\"; give a whole number, in digits", flag, text);
  const bool small = error == std::errc{} && size <= std::uint64_t{1} << 62;  // as a signed number, too
  const std::int64_t value = small ? (negative ? -1 : 1) * static_cast<std::int64_t>(size) : 0;
  if (negative ? !small || value < least : small && value < least)
    bad_input("{} is {}; use {} or more", flag, text, least);
  if (!negative && (error != std::errc{} || size > most)) bad_input("{} is {}; use {} at most", flag, text, most);
}

double read_finite(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || std::isspace(static_cast<unsigned char>(text[0])) != 0 || end != text.c_str() + text.size())
    bad_input("{} is \"{}\"; give a number, as 0.5 or 1e-3", flag, text);
  if (!std::isfinite(value)) bad_input("{} is {}; give a finite number, as 0.5 or 1e-3", flag, text);
  return value;
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->nonpositional() && option->get_type_size() != 0)
      option->check([name = option->get_name()](const std::string& value) {
        if (value.empty()) bad_input("{} is \"\"; give it a value, or leave it out", name);
        return std::string();
      });
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) refuse_empty_values(*command);
}

}  // namespace weft::cli
