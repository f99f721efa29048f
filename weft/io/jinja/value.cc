#include "weft/io/jinja/value.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace weft::jinja {
namespace {

// Python's repr of a float: the shortest digits that read back, with a point.
std::string real_form(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string quoted_form(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out + quote;
}

// As it stands inside a list or a dictionary that is printed.
std::string inner_form(const Value& value) {
  return value.kind == Value::Kind::text ? quoted_form(value.text) : value.text_form();
}

std::string json_text(const std::string& text) {
  return nlohmann::ordered_json(text).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void add_json(const Value& value, int indent, int depth, std::string& out) {
  const auto line = [&](int levels) {
    if (indent >= 0) out += "\n" + std::string(static_cast<std::size_t>(indent * levels), ' ');
  };
  const auto separate = [&](bool first) {
    if (!first) out += indent >= 0 ? "," : ", ";
    line(depth + 1);
  };
  bool first = true;
  switch (value.kind) {
    case Value::Kind::text:
      out += json_text(value.text);
      return;
    case Value::Kind::boolean:
      out += value.boolean ? "true" : "false";
      return;
    case Value::Kind::integer:
    case Value::Kind::real:
      out += value.text_form();
      return;
    case Value::Kind::list:
      out += "[";
      for (const Value& item : *value.list) {
        separate(first);
        add_json(item, indent, depth + 1, out);
        first = false;
      }
      if (!first) line(depth);
      out += "]";
      return;
    case Value::Kind::dict:
      if (value.dict->is_namespace) break;
      out += "{";
      for (const auto& [name, item] : value.dict->items) {
        separate(first);
        out += json_text(name) + ": ";
        add_json(item, indent, depth + 1, out);
        first = false;
      }
      if (!first) line(depth);
      out += "}";
      return;
    default:
      break;
  }
  out += "null";
}

void hold(const Value& item, Value& holder) {
  holder.weight = std::min(holder.weight + item.weight, SIZE_MAX / 4);
  holder.depth = std::max(holder.depth, item.depth + 1);
  holder.has_namespace = holder.has_namespace || item.has_namespace;
}

}  // namespace

Value Value::none() {
  Value value;
  value.kind = Kind::none;
  return value;
}
Value Value::of(bool b) {
  Value value;
  value.kind = Kind::boolean;
  value.boolean = b;
  return value;
}
Value Value::of(std::int64_t i) {
  Value value;
  value.kind = Kind::integer;
  value.integer = i;
  return value;
}
Value Value::of(double d) {
  Value value;
  value.kind = Kind::real;
  value.real = d;
  return value;
}
Value Value::of(std::string text) {
  Value value;
  value.kind = Kind::text;
  value.text = std::move(text);
  value.weight = 1 + value.text.size();
  return value;
}
Value Value::of(List items) {
  Value value;
  value.kind = Kind::list;
  for (const Value& item : items) hold(item, value);
  value.list = std::make_shared<List>(std::move(items));
  return value;
}
Value Value::of(Dict items) {
  Value value;
  value.kind = Kind::dict;
  value.has_namespace = items.is_namespace;
  for (const auto& [name, item] : items.items) hold(item, value);
  value.dict = std::make_shared<Dict>(std::move(items));
  return value;
}
Value Value::of(std::shared_ptr<const Macro> macro) {
  Value value;
  value.kind = Kind::macro;
  value.macro = std::move(macro);
  return value;
}

Value Value::from_json(const nlohmann::ordered_json& json) {
  if (json.is_null()) return none();
  if (json.is_boolean()) return of(json.get<bool>());
  if (json.is_number_integer()) return of(json.get<std::int64_t>());
  if (json.is_number()) return of(json.get<double>());
  if (json.is_string()) return of(json.get<std::string>());
  if (json.is_array()) {
    List items;
    for (const auto& item : json) items.push_back(from_json(item));
    return of(std::move(items));
  }
  Dict items;
  for (const auto& [name, item] : json.items()) items.set(name, from_json(item));
  return of(std::move(items));
}

double Value::number() const {
  return kind == Kind::real ? real : kind == Kind::integer ? static_cast<double>(integer) : boolean ? 1 : 0;
}

bool Value::truthy() const {
  switch (kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::text:
      return !text.empty();
    case Kind::list:
      return !list->empty();
    case Kind::dict:
      return dict->is_namespace || !dict->items.empty();
    case Kind::macro:
      return true;
    default:
      return number() != 0;
  }
}

bool Value::operator==(const Value& other) const {
  if (is_number() && other.is_number()) return number() == other.number();
  if (kind != other.kind) return false;
  switch (kind) {
    case Kind::text:
      return text == other.text;
    case Kind::list:
      return *list == *other.list;
    case Kind::dict: {
      if (dict->is_namespace || other.dict->is_namespace) return dict == other.dict;
      if (dict->items.size() != other.dict->items.size()) return false;
      for (const auto& [name, item] : dict->items) {
        const Value* same = other.dict->find(name);
        if (same == nullptr || !(*same == item)) return false;
      }
      return true;
    }
    case Kind::macro:
      return macro == other.macro;
    default:
      return true;
  }
}

std::string Value::text_form() const {
  switch (kind) {
    case Kind::undefined:
      return "";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return boolean ? "True" : "False";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::real:
      return real_form(real);
    case Kind::text:
      return text;
    case Kind::list: {
      std::string out;
      for (const Value& item : *list) out += (out.empty() ? "" : ", ") + inner_form(item);
      return "[" + out + "]";
    }
    case Kind::dict: {
      if (dict->is_namespace) return "<namespace>";
      std::string out;
      for (const auto& [name, item] : dict->items)
        out += (out.empty() ? "" : ", ") + quoted_form(name) + ": " + inner_form(item);
      return "{" + out + "}";
    }
    case Kind::macro:
      return "<macro>";
  }
  return "";
}

std::string Value::json_form(int indent) const {
  std::string out;
  add_json(*this, indent, 0, out);
  return out;
}

std::string_view Value::kind_name() const {
  constexpr std::string_view kNames[] = {"undefined", "none",   "a boolean",    "a number", "a number",
                                         "a string",  "a list", "a dictionary", "a macro"};
  return kNames[static_cast<std::size_t>(kind)];
}

const Value* Dict::find(std::string_view name) const {
  for (const auto& [key, value] : items)
    if (key == name) return &value;
  return nullptr;
}

void Dict::set(const std::string& name, Value value) {
  for (auto& [key, old] : items)
    if (key == name) {
      old = std::move(value);
      return;
    }
  items.emplace_back(name, std::move(value));
}

}  // namespace weft::jinja
