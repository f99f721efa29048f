// Methods of values and functions of a template.
#include <array>
#include <ctime>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/jinja/interpreter.h"
#include "weft/io/jinja/text_functions.h"

namespace weft::jinja {
namespace {

using Kind = Value::Kind;
constexpr std::int64_t kMostOfRange = 100'000;

Value text_list(std::vector<std::string> texts) {
  List items;
  for (std::string& text : texts) items.push_back(Value::of(std::move(text)));
  return Value::of(std::move(items));
}

std::string joined(const Interpreter& in, const std::string& between, const Value& value) {
  std::string out;
  bool first = true;
  for (const Value& item : in.items_of(value)) {
    out += (first ? "" : between) + item.text_form();
    first = false;
  }
  return out;
}

bool any_of(const Value& candidates, bool (*holds)(const std::string&, const std::string&), const std::string& text) {
  if (candidates.kind != Kind::list) return holds(text, candidates.text_form());
  for (const Value& one : *candidates.list)
    if (holds(text, one.text_form())) return true;
  return false;
}

Value text_method(const Interpreter& in, const std::string& text, const std::string& name, const Arguments& arguments) {
  const Value first = arguments.get(0, ""), second = arguments.get(1, ""), third = arguments.get(2, "count");
  const auto strip = [&](Ends ends) {
    return Value::of(first.kind == Kind::text ? stripped(text, ends, first.text) : stripped(text, ends));
  };
  const auto most = [](const Value& value) { return value.kind == Kind::integer ? value.integer : -1; };
  if (name == "strip") return strip(Ends::both);
  if (name == "lstrip") return strip(Ends::left);
  if (name == "rstrip") return strip(Ends::right);
  if (name == "upper") return Value::of(raised(text));
  if (name == "lower") return Value::of(lowered(text));
  if (name == "title") return Value::of(capitalised(text, true));
  if (name == "capitalize") return Value::of(capitalised(text, false));
  if (name == "replace") return Value::of(replaced(text, first.text_form(), second.text_form(), most(third)));
  if (name == "startswith")
    return Value::of(any_of(
        first, [](const std::string& t, const std::string& p) { return t.starts_with(p); }, text));
  if (name == "endswith")
    return Value::of(any_of(
        first, [](const std::string& t, const std::string& p) { return t.ends_with(p); }, text));
  if (name == "join") return Value::of(joined(in, text, first));
  if (name == "splitlines") return text_list(split(text, "\n"));
  if (name == "split") {
    if (first.kind != Kind::text) return text_list(split(text));
    if (first.text.empty()) in.refuse("split() is given an empty string");
    return text_list(split(text, first.text, most(second)));
  }
  if (name == "find") {
    const std::size_t found = text.find(first.text_form());
    return Value::of(found == std::string::npos ? std::int64_t{-1}
                                                : length_of(std::string_view(text).substr(0, found)));
  }
  in.refuse(fmt::format("the method {} of a string is not done here", weft::quoted(name)));
}

Value dict_method(const Interpreter& in, const Value& of, const std::string& name, const Arguments& arguments) {
  List out;
  if (name == "get") {
    const Value* found = of.dict->find(arguments.get(0, "key").text_form());
    if (found != nullptr) return *found;
    const Value otherwise = arguments.get(1, "default");
    return otherwise.kind == Kind::undefined ? Value::none() : otherwise;
  }
  for (const auto& [key, value] : of.dict->items) {
    if (name == "items") out.push_back(Value::of(List{Value::of(key), value}));
    if (name == "keys") out.push_back(Value::of(key));
    if (name == "values") out.push_back(value);
  }
  if (name == "items" || name == "keys" || name == "values") return Value::of(std::move(out));
  in.refuse(fmt::format("the method {} of a dictionary is not done here", weft::quoted(name)));
}

Value range_of(const Interpreter& in, const Arguments& arguments) {
  std::int64_t bounds[3] = {0, 0, 1};
  const std::size_t count = arguments.list.size();
  if (count < 1 || count > 3) in.refuse("range() takes one to three numbers");
  for (std::size_t i = 0; i < count; ++i) {
    if (arguments.list[i].kind != Kind::integer) in.refuse("range() is given something that is no whole number");
    bounds[count == 1 ? 1 : i] = arguments.list[i].integer;
  }
  if (bounds[2] == 0) in.refuse("range() has a step of zero");
  List out;
  for (std::int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (std::ssize(out) >= kMostOfRange) in.refuse("range() has more than 100000 numbers; it is refused");
    out.push_back(Value::of(i));
    if (__builtin_add_overflow(i, bounds[2], &i)) break;
  }
  return Value::of(std::move(out));
}

std::string formatted_time(const Interpreter& in, const std::string& format) {
  const std::time_t now = in.options().now != 0 ? in.options().now : std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 1024> text;
  return {text.data(), std::strftime(text.data(), text.size(), format.c_str(), &parts)};
}

}  // namespace

Value Interpreter::method(const Value& of, const std::string& name, const Arguments& arguments) {
  if (of.kind == Kind::text) return text_method(*this, of.text, name, arguments);
  if (of.kind == Kind::dict) {
    const Value* own = of.dict->find(name);
    if (own != nullptr && own->kind == Kind::macro) return call_macro(*own->macro, arguments);
    return dict_method(*this, of, name, arguments);
  }
  refuse(fmt::format("{} has no method {}", of.kind_name(), weft::quoted(name)));
}

Value Interpreter::function(const std::string& name, const Arguments& arguments) {
  if (name == "raise_exception")
    refuse(fmt::format("it refuses these messages: {}", arguments.get(0, "message").text_form()));
  if (name == "namespace" || name == "dict") {
    Dict items;
    items.is_namespace = name == "namespace";
    for (const auto& [key, value] : arguments.named) items.set(key, value);
    return Value::of(std::move(items));
  }
  if (name == "range") return range_of(*this, arguments);
  if (name == "strftime_now") return Value::of(formatted_time(*this, arguments.get(0, "format").text_form()));
  refuse(fmt::format("the function {} is not done here", weft::quoted(name)));
}

}  // namespace weft::jinja
