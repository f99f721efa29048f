#include "weft/reshard/manifest_words.h"

#include <charconv>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/plan/expr.h"

namespace weft {
namespace {

constexpr std::int64_t kMostTurns = 100'000;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

ManifestWords ManifestWords::with(const std::string& name, std::int64_t value) const {
  ManifestWords words = *this;
  words.params_[name] = value;
  return words;
}

std::int64_t ManifestWords::eval(std::string_view expression, std::string_view where) const {
  Scope scope;
  std::vector<std::int64_t> slots;
  for (const auto& [name, value] : params_) {
    scope.names.push_back(name);
    slots.push_back(value);
  }
  try {
    return Formula(Expr::parse(expression), scope).eval(slots, {});
  } catch (const Error& error) {
    bad_input("{}: \"{}\": {}; names are those of \"params\" and of the loop in \"for\"", where, expression,
              error.what());
  }
}

std::string ManifestWords::fill(std::string_view text, std::string_view where) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('{', at);
    out += text.substr(at, open - at);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find('}', open);
    if (close == std::string_view::npos) bad_input("{}: \"{}\" has a '{{' without its '}}'; add it", where, text);
    out += std::to_string(eval(text.substr(open + 1, close - open - 1), where));
    at = close + 1;
  }
  return out;
}

std::int64_t ManifestWords::checked(const Json& value, std::string_view key, std::string_view where, std::int64_t min,
                                    std::int64_t max) const {
  const std::string place = fmt::format("{}: \"{}\"", where, key);
  if (!value.is_string() && !value.is_number_integer())
    bad_input("{} is {}; write a whole number or an expression in quotes", place, value.dump());
  const std::int64_t number = value.is_string() ? eval(value.get<std::string>(), place) : value.get<std::int64_t>();
  if (number < min || number > max)
    bad_input("{} is {}{}; use {} to {}", place, value.dump(),
              value.is_string() ? fmt::format(", which is {}", number) : "", min, max);
  return number;
}

std::int64_t ManifestWords::number(const Json& object, std::string_view key, std::string_view where, std::int64_t min,
                                   std::int64_t max) const {
  const Json* value = find_field(object, key, where);
  if (value == nullptr) bad_input("{}: \"{}\" is missing; add a whole number or an expression in quotes", where, key);
  return checked(*value, key, where, min, max);
}

std::int64_t ManifestWords::number_or(std::int64_t value, const Json& object, std::string_view key,
                                      std::string_view where, std::int64_t min, std::int64_t max) const {
  return find_field(object, key, where) == nullptr ? value : number(object, key, where, min, max);
}

std::vector<std::int64_t> ManifestWords::numbers(const Json& object, std::string_view key, std::string_view where,
                                                 std::int64_t min) const {
  std::vector<std::int64_t> out;
  for (const Json& value : get_array(object, key, where))
    out.push_back(checked(value, key, where, min, std::int64_t{1} << 40));
  return out;
}

std::string ManifestWords::text(const Json& object, std::string_view key, std::string_view where) const {
  return fill(get_string(object, key, where), fmt::format("{}: \"{}\"", where, key));
}

std::string ManifestWords::text_or(std::string value, const Json& object, std::string_view key,
                                   std::string_view where) const {
  return find_field(object, key, where) == nullptr ? std::move(value) : text(object, key, where);
}

std::vector<ManifestWords> ManifestWords::loop(const Json& object, std::string_view where) const {
  if (find_field(object, "for", where) == nullptr) return {*this};
  const std::string text = get_string(object, "for", where);
  const std::string place = fmt::format("{}: \"for\"", where);
  const std::size_t in = text.find(" in "), dots = text.find("..");
  if (in == std::string::npos || dots == std::string::npos || dots < in)
    bad_input("{} is \"{}\"; write it as \"i in 0..79\"", place, text);
  const std::string name(trimmed(std::string_view(text).substr(0, in)));
  const std::int64_t first = eval(std::string_view(text).substr(in + 4, dots - in - 4), place);
  const std::int64_t last = eval(std::string_view(text).substr(dots + 2), place);
  if (last - first >= kMostTurns)
    bad_input("{} is \"{}\", {} turns; use at most {}", place, text, last - first + 1, kMostTurns);
  std::vector<ManifestWords> turns;
  for (std::int64_t i = first; i <= last; ++i) turns.push_back(with(name, i));
  return turns;
}

std::vector<Axis> parse_axes(std::string_view text) {
  const auto refuse = [&] { bad_input("cannot read mesh \"{}\"; write it as 2x4 or dp=2,tp=4", text); };
  const auto size_of = [&](std::string_view part) {
    int size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (part.empty() || error != std::errc{} || end != part.data() + part.size()) refuse();
    return size;
  };
  const bool named = text.find('=') != std::string_view::npos;
  std::vector<Axis> axes;
  for (std::string_view rest = text;;) {
    const std::size_t end = rest.find(named ? ',' : 'x');
    const std::string_view part = rest.substr(0, end);
    const std::size_t equals = part.find('=');
    if (named && equals == std::string_view::npos) refuse();
    axes.push_back(named ? Axis{std::string(part.substr(0, equals)), size_of(part.substr(equals + 1))}
                         : Axis{"", size_of(part)});
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (!named && axes.size() > 2) refuse();
  if (!named) axes.back().name = "device";
  if (!named && axes.size() == 2) axes.front().name = "host";
  return axes;
}

}  // namespace weft
