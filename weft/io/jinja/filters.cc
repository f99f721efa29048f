// Filters ({{ x | name }}) and tests ({{ x is name }}) of a template.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/jinja/interpreter.h"
#include "weft/io/jinja/text_functions.h"

namespace weft::jinja {
namespace {

using Kind = Value::Kind;

std::int64_t to_whole(const Value& value) {
  if (value.is_number()) return std::abs(value.number()) < 9e18 ? static_cast<std::int64_t>(value.number()) : 0;
  const std::string text = stripped(value.text_form(), Ends::both);
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  return error == std::errc() && end == text.data() + text.size() ? whole : 0;
}

List with_indent_lines(const std::string& text) {
  List lines;
  for (std::string& line : split(text, "\n")) lines.push_back(Value::of(std::move(line)));
  return lines;
}

std::string indented(const std::string& text, const Arguments& arguments) {
  const Value width = arguments.get(0, "width");
  const std::string blank = width.kind == Kind::text
                                ? width.text
                                : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                  width.kind == Kind::integer ? width.integer : 4, 0, 1000)),
                                              ' ');
  const bool first = arguments.get(1, "first").truthy(), empty = arguments.get(2, "blank").truthy();
  std::string out;
  bool begins = true;
  for (const Value& line : with_indent_lines(text)) {
    if (!begins) out += "\n";
    out += (begins ? first : empty || !line.text.empty()) ? blank + line.text : line.text;
    begins = false;
  }
  return out;
}

List reversed(List items) {
  std::reverse(items.begin(), items.end());
  return items;
}

}  // namespace

// Those that go over a list and keep, or change, its items.
static Value listed(Interpreter& in, const std::string& name, const Value& value, const Arguments& arguments) {
  const List items = in.items_of(value);
  List out;
  if (name == "map") {
    const Value attribute = arguments.get(arguments.list.size(), "attribute");
    for (const Value& item : items)
      out.push_back(attribute.kind == Kind::text ? in.attribute_of(item, attribute.text)
                                                 : in.filter(arguments.get(0, "filter").text_form(), item, {}));
    return Value::of(std::move(out));
  }
  const bool by_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
  const std::size_t skip = by_attribute ? 1 : 0;
  for (const Value& item : items) {
    const Value subject = by_attribute ? in.attribute_of(item, arguments.get(0, "").text_form()) : item;
    Arguments rest;
    for (std::size_t i = skip + 1; i < arguments.list.size(); ++i) rest.list.push_back(arguments.list[i]);
    const bool holds =
        arguments.list.size() > skip ? in.test(arguments.list[skip].text_form(), subject, rest) : subject.truthy();
    if (holds == wanted) out.push_back(item);
  }
  return Value::of(std::move(out));
}

static Value text_filter(const std::string& name, const std::string& text, const Arguments& arguments, bool* known) {
  *known = true;
  if (name == "trim") {
    const Value of = arguments.get(0, "chars");
    return Value::of(of.kind == Kind::text ? stripped(text, Ends::both, of.text) : stripped(text, Ends::both));
  }
  if (name == "upper") return Value::of(raised(text));
  if (name == "lower") return Value::of(lowered(text));
  if (name == "title") return Value::of(capitalised(text, true));
  if (name == "capitalize") return Value::of(capitalised(text, false));
  if (name == "replace")
    return Value::of(replaced(text, arguments.get(0, "old").text_form(), arguments.get(1, "new").text_form()));
  if (name == "indent") return Value::of(indented(text, arguments));
  if (name == "string" || name == "safe") return Value::of(text);
  *known = false;
  return {};
}

Value Interpreter::filter(const std::string& name, const Value& value, const Arguments& arguments) {
  if (name == "default" || name == "d") {
    const bool falsy = arguments.get(1, "boolean").truthy() && !value.truthy();
    const Value otherwise = arguments.get(0, "default_value");
    if (value.kind != Kind::undefined && !falsy) return value;
    return otherwise.kind == Kind::undefined ? Value::of(std::string()) : otherwise;
  }
  if (name == "tojson") {
    const Value indent = arguments.get(0, "indent");
    if (indent.kind == Kind::integer && (indent.integer < 0 || indent.integer > 100))
      refuse("tojson has an indent out of range");
    return Value::of(value.json_form(indent.kind == Kind::integer ? static_cast<int>(indent.integer) : -1));
  }
  if (name == "length" || name == "count") {
    if (value.kind == Kind::text) return Value::of(length_of(value.text));
    return Value::of(std::int64_t{std::ssize(items_of(value))});
  }
  bool known = false;
  if (const Value text = text_filter(name, value.text_form(), arguments, &known); known) return text;
  if (name == "map" || name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return listed(*this, name, value, arguments);
  if (name == "int") return Value::of(to_whole(value));
  if (name == "abs" && value.is_number())
    return value.kind == Kind::real ? Value::of(std::abs(value.real)) : Value::of(std::abs(to_whole(value)));
  if (name == "items") return method(value, "items", {});
  const List items = items_of(value);
  if (name == "list") return Value::of(items);
  if (name == "reverse" && value.kind != Kind::text) return Value::of(reversed(items));
  if (name == "first") return items.empty() ? Value{} : items.front();
  if (name == "last") return items.empty() ? Value{} : items.back();
  if (name == "join") {
    std::string out;
    const std::string between = arguments.get(0, "d").text_form();
    for (std::size_t i = 0; i < items.size(); ++i) out += (i > 0 ? between : "") + items[i].text_form();
    return Value::of(std::move(out));
  }
  refuse(fmt::format("the filter {} is not done here", weft::quoted(name)));
}

bool Interpreter::test(const std::string& name, const Value& value, const Arguments& arguments) {
  const Kind kind = value.kind;
  const Value other = arguments.get(0, "other");
  if (name == "defined") return kind != Kind::undefined;
  if (name == "undefined") return kind == Kind::undefined;
  if (name == "none") return kind == Kind::none;
  if (name == "string") return kind == Kind::text;
  if (name == "mapping") return kind == Kind::dict;
  if (name == "iterable")
    return kind == Kind::text || kind == Kind::list || kind == Kind::dict || kind == Kind::undefined;
  if (name == "sequence")
    return kind == Kind::text || kind == Kind::list || kind == Kind::dict || kind == Kind::undefined;
  if (name == "number") return value.is_number();
  if (name == "integer") return kind == Kind::integer;
  if (name == "float") return kind == Kind::real;
  if (name == "boolean") return kind == Kind::boolean;
  if (name == "true" || name == "false") return kind == Kind::boolean && value.boolean == (name == "true");
  if (name == "callable") return kind == Kind::macro;
  if (name == "equalto" || name == "eq" || name == "==") return value == other;
  if (name == "ne" || name == "!=") return !(value == other);
  if (name == "in") return contains(other, value);
  if (name == "divisibleby") return arithmetic("%", value, arguments.get(0, "num")).number() == 0;
  if (name == "odd" || name == "even") {
    const Value rest = arithmetic("%", value, Value::of(std::int64_t{2}));
    return (rest.number() != 0) == (name == "odd");
  }
  refuse(fmt::format("the test {} is not done here", weft::quoted(name)));
}

}  // namespace weft::jinja
