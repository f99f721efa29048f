// Expressions of a template.
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/jinja/interpreter.h"

namespace weft::jinja {
namespace {

constexpr int kMostValueDepth = 64;
constexpr std::size_t kMostRepeated = std::size_t{1} << 20;

bool overflows(const std::string& op, std::int64_t a, std::int64_t b, std::int64_t* out) {
  return op == "+"   ? __builtin_add_overflow(a, b, out)
         : op == "-" ? __builtin_sub_overflow(a, b, out)
                     : __builtin_mul_overflow(a, b, out);
}

std::string repeated(const std::string& text, std::int64_t times) {
  std::string out;
  for (std::int64_t i = 0; i < times && !text.empty(); ++i) out += text;
  return out;
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  line_ = expr.line;
  Value value = value_of(expr);
  step(1 + value.text.size() / kBytesPerStep);
  if (value.weight > options_.most_bytes || value.depth > kMostValueDepth)
    refuse("a value grows too large; it is refused");
  return value;
}

Value Interpreter::value_of(const Expr& expr) {
  switch (expr.kind) {
    case Expr::Kind::literal:
      return expr.value;
    case Expr::Kind::name: {
      const Value* value = find(expr.text);
      return value == nullptr ? Value{} : *value;
    }
    case Expr::Kind::list: {
      List items;
      for (const ExprPtr& part : expr.parts) items.push_back(evaluate(*part));
      return Value::of(std::move(items));
    }
    case Expr::Kind::dict: {
      Dict items;
      for (std::size_t i = 0; i + 1 < expr.parts.size(); i += 2)
        items.set(evaluate(*expr.parts[i]).text_form(), evaluate(*expr.parts[i + 1]));
      return Value::of(std::move(items));
    }
    case Expr::Kind::attribute: {
      const Value of = evaluate(*expr.parts[0]);
      if (of.kind == Value::Kind::undefined)
        refuse(fmt::format("\"{}\" is asked of something that is undefined", expr.text));
      return attribute_of(of, expr.text);
    }
    case Expr::Kind::item: {
      const Value of = evaluate(*expr.parts[0]);
      return item(of, evaluate(*expr.parts[1]));
    }
    case Expr::Kind::slice:
      return slice(expr);
    case Expr::Kind::call:
      return call(expr);
    case Expr::Kind::filter: {
      const Value value = evaluate(*expr.parts[0]);
      return filter(expr.text, value, arguments_of(expr));
    }
    case Expr::Kind::test: {
      const Value value = evaluate(*expr.parts[0]);
      return Value::of(test(expr.text, value, arguments_of(expr)));
    }
    case Expr::Kind::unary: {
      const Value value = evaluate(*expr.parts[0]);
      if (expr.text == "not") return Value::of(!value.truthy());
      return arithmetic("-", Value::of(std::int64_t{0}), value);
    }
    case Expr::Kind::binary:
      return binary(expr);
    case Expr::Kind::conditional:
      if (evaluate(*expr.parts[1]).truthy()) return evaluate(*expr.parts[0]);
      return expr.parts[2] == nullptr ? Value{} : evaluate(*expr.parts[2]);
  }
  return {};
}

Value Interpreter::attribute_of(const Value& of, const std::string& name) const {
  if (of.kind != Value::Kind::dict) return {};
  const Value* value = of.dict->find(name);
  return value == nullptr ? Value{} : *value;
}

Value Interpreter::item(const Value& of, const Value& index) const {
  if (of.kind == Value::Kind::undefined)
    refuse(fmt::format("[{}] is asked of something that is undefined", index.text_form()));
  if (of.kind == Value::Kind::dict) return index.kind == Value::Kind::text ? attribute_of(of, index.text) : Value{};
  if (of.kind != Value::Kind::list && of.kind != Value::Kind::text) return {};
  if (index.kind != Value::Kind::integer) return {};
  const List items = of.kind == Value::Kind::list ? List{} : items_of(of);
  const List& all = of.kind == Value::Kind::list ? *of.list : items;
  const std::int64_t place = index.integer < 0 ? index.integer + std::ssize(all) : index.integer;
  return place >= 0 && place < std::ssize(all) ? all[at(place)] : Value{};
}

// As Python's: places beyond the ends are the ends, a negative step goes backwards.
Value Interpreter::slice(const Expr& expr) {
  const Value of = evaluate(*expr.parts[0]);
  if (of.kind != Value::Kind::list && of.kind != Value::Kind::text)
    refuse(fmt::format("{} cannot be cut with [:]", of.kind_name()));
  const auto bound = [&](std::size_t part, std::int64_t otherwise) {
    if (expr.parts[part] == nullptr) return otherwise;
    const Value value = evaluate(*expr.parts[part]);
    if (value.kind == Value::Kind::none) return otherwise;
    if (value.kind != Value::Kind::integer) refuse("a bound of [:] is no whole number");
    return value.integer;
  };
  const List all = items_of(of);
  const std::int64_t count = std::ssize(all), stride = bound(3, 1);
  if (stride == 0 || stride == INT64_MIN) refuse("the step of [::] is out of range");
  const std::int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? count : count - 1;
  const auto placed = [&](std::size_t part, std::int64_t otherwise) {
    const std::int64_t value = bound(part, INT64_MAX);
    if (value == INT64_MAX && expr.parts[part] == nullptr) return otherwise;
    const std::int64_t place = value < 0 ? (value < -count ? low : value + count) : value;
    return std::min(std::max(place, low), high);
  };
  const std::int64_t begin = placed(1, stride > 0 ? 0 : count - 1), end = placed(2, stride > 0 ? count : -1);
  List out;
  for (std::int64_t i = begin; stride > 0 ? i < end : i > end;) {
    out.push_back(all[at(i)]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (of.kind == Value::Kind::list) return Value::of(std::move(out));
  std::string text;
  for (const Value& character : out) text += character.text;
  return Value::of(std::move(text));
}

Arguments Interpreter::arguments_of(const Expr& expr) {
  Arguments arguments;
  for (std::size_t i = 1; i < expr.parts.size(); ++i) arguments.list.push_back(evaluate(*expr.parts[i]));
  for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, evaluate(*value));
  return arguments;
}

Value Interpreter::call(const Expr& expr) {
  const Expr& callee = *expr.parts[0];
  if (callee.kind == Expr::Kind::name) {
    const Value* known = find(callee.text);
    const Value held = known == nullptr ? Value{} : *known;
    const Arguments arguments = arguments_of(expr);
    line_ = expr.line;
    if (held.kind == Value::Kind::macro) return call_macro(*held.macro, arguments);
    return function(callee.text, arguments);
  }
  if (callee.kind == Expr::Kind::attribute) {
    const Value of = evaluate(*callee.parts[0]);
    const Arguments arguments = arguments_of(expr);
    line_ = expr.line;
    return method(of, callee.text, arguments);
  }
  refuse("something is called that is no function");
}

Value Interpreter::binary(const Expr& expr) {
  const std::string& op = expr.text;
  const Value left = evaluate(*expr.parts[0]);
  if (op == "and") return left.truthy() ? evaluate(*expr.parts[1]) : left;
  if (op == "or") return left.truthy() ? left : evaluate(*expr.parts[1]);
  const Value right = evaluate(*expr.parts[1]);
  line_ = expr.line;
  if (op == "==") return Value::of(left == right);
  if (op == "!=") return Value::of(!(left == right));
  if (op == "in") return Value::of(contains(right, left));
  if (op == "~") return Value::of(left.text_form() + right.text_form());
  if (op[0] == '<' || op[0] == '>') return compared(op, left, right);
  return arithmetic(op, left, right);
}

bool Interpreter::contains(const Value& all, const Value& one) const {
  if (all.kind == Value::Kind::text) {
    if (one.kind != Value::Kind::text) refuse(fmt::format("{} is looked for in a string", one.kind_name()));
    return all.text.find(one.text) != std::string::npos;
  }
  for (const Value& item : items_of(all))
    if (item == one) return true;
  return false;
}

Value Interpreter::compared(const std::string& op, const Value& left, const Value& right) const {
  int order = 0;
  if (left.is_number() && right.is_number())
    order = left.number() < right.number() ? -1 : left.number() > right.number() ? 1 : 0;
  else if (left.kind == Value::Kind::text && right.kind == Value::Kind::text)
    order = left.text.compare(right.text);
  else
    refuse(fmt::format("{} and {} are compared by {}", left.kind_name(), right.kind_name(), op));
  const bool equal = op.size() > 1 && order == 0;
  return Value::of(equal || (op[0] == '<' ? order < 0 : order > 0));
}

Value Interpreter::arithmetic(const std::string& op, const Value& left, const Value& right) const {
  using Kind = Value::Kind;
  if (op == "+" && left.kind == Kind::text && right.kind == Kind::text) return Value::of(left.text + right.text);
  if (op == "+" && left.kind == Kind::list && right.kind == Kind::list) {
    List both = *left.list;
    both.insert(both.end(), right.list->begin(), right.list->end());
    return Value::of(std::move(both));
  }
  if (op == "*" && left.kind == Kind::text && right.kind == Kind::integer) {
    if (right.integer > 0 && left.text.size() > kMostRepeated / num(right.integer))
      refuse("a string is repeated too often");
    return Value::of(repeated(left.text, right.integer));
  }
  if (!left.is_number() || !right.is_number())
    refuse(fmt::format("{} {} {} cannot be computed", left.kind_name(), op, right.kind_name()));
  const bool whole = left.kind != Kind::real && right.kind != Kind::real;
  if ((op == "/" || op == "//" || op == "%") && right.number() == 0) refuse("a number is divided by zero");
  if (!whole || op == "/") {
    const double a = left.number(), b = right.number();
    if (op == "+") return Value::of(a + b);
    if (op == "-") return Value::of(a - b);
    if (op == "*") return Value::of(a * b);
    return Value::of(op == "/" ? a / b : op == "//" ? std::floor(a / b) : a - b * std::floor(a / b));
  }
  const auto whole_of = [](const Value& v) { return v.kind == Kind::integer ? v.integer : std::int64_t{v.boolean}; };
  const std::int64_t a = whole_of(left), b = whole_of(right);
  if (op == "//" || op == "%") {
    if (a == INT64_MIN && b == -1) refuse("a number is too large");
    const std::int64_t rest = a % b, below = rest != 0 && (rest < 0) != (b < 0);
    return Value::of(op == "%" ? rest + (below != 0 ? b : 0) : a / b - below);
  }
  std::int64_t out = 0;
  if (overflows(op, a, b, &out)) refuse("a number is too large");
  return Value::of(out);
}

}  // namespace weft::jinja
