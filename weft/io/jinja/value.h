// Values of a chat template: what Jinja has of Python's. Lists and dictionaries are shared, as references are there;
// only a namespace may change after it was made, and none can hold another: so there are no cycles.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/json.h"

namespace weft::jinja {

struct Value;
using List = std::vector<Value>;
struct Dict;
struct Macro;

struct Value {
  enum class Kind { undefined, none, boolean, integer, real, text, list, dict, macro };

  Value() = default;
  static Value none();
  static Value of(bool value);
  static Value of(std::int64_t value);
  static Value of(double value);
  static Value of(std::string value);
  static Value of(List items);
  static Value of(Dict items);
  static Value of(std::shared_ptr<const Macro> macro);
  static Value from_json(const nlohmann::ordered_json& json);

  bool is_number() const { return kind == Kind::integer || kind == Kind::real || kind == Kind::boolean; }
  double number() const;  // of a number
  bool truthy() const;
  bool operator==(const Value& other) const;

  std::string text_form() const;            // as {{ x }} prints it, Python's str()
  std::string json_form(int indent) const;  // as the filter tojson prints it; indent below 0: in one line
  std::string_view kind_name() const;       // for messages

  Kind kind = Kind::undefined;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::shared_ptr<List> list;
  std::shared_ptr<Dict> dict;
  std::shared_ptr<const Macro> macro;
  // Of what it holds, all of it: bounded by the interpreter, so that nothing recursive or exponential can be made.
  std::size_t weight = 1;  // bytes and items
  int depth = 0;
  bool has_namespace = false;
};

struct Dict {
  std::vector<std::pair<std::string, Value>> items;  // in the order they came
  bool is_namespace = false;

  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
};

}  // namespace weft::jinja
