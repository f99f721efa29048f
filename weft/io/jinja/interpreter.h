// Runs the tree of a template. Names are looked up from the innermost loop or macro outwards.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/io/jinja/syntax.h"
#include "weft/io/jinja/template.h"
#include "weft/io/jinja/value.h"

namespace weft::jinja {

// What a call has between its brackets.
struct Arguments {
  List list;
  std::vector<std::pair<std::string, Value>> named;

  // By place or by name; undefined where it is neither.
  Value get(std::size_t place, std::string_view name) const;
};

inline constexpr std::size_t kBytesPerStep = 256;  // text is copied at some cost

class Interpreter {
 public:
  Interpreter(const std::string& where, const Dict& variables, const RenderOptions& options);

  void run(const Body& body, std::string& out);
  Value evaluate(const Expr& expr);  // refuses what grows beyond its bounds

  [[noreturn]] void refuse(std::string_view why) const;  // names file and line
  const RenderOptions& options() const { return options_; }

  // Of filters.cc and methods.cc. All throw bad_input for a name that is not done.
  Value filter(const std::string& name, const Value& value, const Arguments& arguments);
  bool test(const std::string& name, const Value& value, const Arguments& arguments);
  Value method(const Value& of, const std::string& name, const Arguments& arguments);
  Value function(const std::string& name, const Arguments& arguments);

  Value attribute_of(const Value& of, const std::string& name) const;  // undefined where it has none
  List items_of(const Value& value) const;                             // what a loop goes over
  Value call_macro(const Macro& macro, const Arguments& arguments);

 private:
  enum class Flow { go, leave, next };  // on; out of the loop; to its next turn

  void step(std::size_t cost = 1) const;
  Value value_of(const Expr& expr);
  Flow run_all(const Body& body, std::string& out);
  Flow run_one(const Node& node, std::string& out);
  Flow choose(const Node& node, std::string& out);
  void loop(const Node& node, std::string& out);
  void set(const Node& node, std::string& out);
  void bind(const std::vector<std::string>& names, const Value& value);
  void print(const std::string& text, std::string& out);

  const Value* find(std::string_view name) const;
  Value call(const Expr& expr);
  Arguments arguments_of(const Expr& expr);
  Value item(const Value& of, const Value& index) const;
  Value slice(const Expr& expr);
  Value binary(const Expr& expr);
  Value arithmetic(const std::string& op, const Value& left, const Value& right) const;
  Value compared(const std::string& op, const Value& left, const Value& right) const;
  bool contains(const Value& all, const Value& one) const;

  const std::string& where_;
  const RenderOptions& options_;
  std::vector<Dict> scopes_;       // the first is the template's own
  mutable std::size_t steps_ = 0;  // what was done so far, large values weighed in
  int line_ = 1, depth_ = 0;
};

}  // namespace weft::jinja
