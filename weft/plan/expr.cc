#include "weft/plan/expr.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

using Op = Expr::Op;

constexpr int kMaxDepth = 32;  // also the evaluation stack: a hostile file cannot overflow either

struct Form {
  Op op;
  std::string_view text;
  int level;  // precedence: 1 both, 2 comparisons, 3 sums, 4 products; 0 is a function
};
constexpr std::array<Form, 16> kForms{{{Op::both, "&", 1},
                                       {Op::eq, "==", 2},
                                       {Op::ne, "!=", 2},
                                       {Op::le, "<=", 2},
                                       {Op::ge, ">=", 2},
                                       {Op::lt, "<", 2},
                                       {Op::gt, ">", 2},
                                       {Op::add, "+", 3},
                                       {Op::sub, "-", 3},
                                       {Op::mul, "*", 4},
                                       {Op::div, "/", 4},
                                       {Op::mod, "%", 4},
                                       {Op::cut, "cut", 0},
                                       {Op::up, "up", 0},
                                       {Op::min, "min", 0},
                                       {Op::max, "max", 0}}};

const Form& form_of(Op op) {
  return *std::find_if(kForms.begin(), kForms.end(), [op](const Form& f) { return f.op == op; });
}

inline std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (a >= 0 && a < b) return a;  // ranks and chunks mostly are, and a division costs tens of cycles
  const std::int64_t rest = a % b;
  return rest < 0 ? rest + (b < 0 ? -b : b) : rest;
}

[[noreturn]] void overflow() {
  bad_input("an expression of the plan leaves the 64-bit range; the sizes are too large");
}

[[gnu::always_inline]] inline std::int64_t apply(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &out)) overflow();
      return out;
    case Op::sub:
      if (__builtin_sub_overflow(a, b, &out)) overflow();
      return out;
    case Op::mul:
      if (__builtin_mul_overflow(a, b, &out)) overflow();
      return out;
    case Op::div:
    case Op::mod:
    case Op::up: {
      if (b <= 0) bad_input("an expression of the plan divides by {}; divisors are positive", b);
      const std::int64_t rest = floor_mod(a, b);
      if (op == Op::mod) return rest;
      if (__builtin_sub_overflow(a, rest, &out)) overflow();
      return out / b + (op == Op::up && rest != 0);
    }
    case Op::eq:
      return a == b;
    case Op::ne:
      return a != b;
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::gt:
      return a > b;
    case Op::ge:
      return a >= b;
    case Op::both:
      return a != 0 && b != 0;
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
    default:
      fail(Code::internal, "expression operator {} has no value", static_cast<int>(op));
  }
}

std::int64_t apply_cut(std::int64_t total, std::int64_t parts, std::int64_t i) {
  if (parts <= 0 || total < 0 || i < 0 || i > parts)
    bad_input("cut({}, {}, {}) is outside its range; parts are positive and 0 <= i <= parts", total, parts, i);
  return cut(total, parts, i);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expr parse() {
    Expr expr = level(1);
    skip();
    if (at_ != text_.size()) error("unexpected text");
    return expr;
  }

 private:
  [[noreturn]] void error(std::string_view what) const {
    bad_input("cannot read expression \"{}\": {} at column {}", text_, what, at_ + 1);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; }
  static bool digit(char c) { return c >= '0' && c <= '9'; }

  Expr level(int n) {
    if (++depth_ > 4 * kMaxDepth) error("too deeply nested");
    Expr left = n == 4 ? unary() : level(n + 1);
    for (bool more = true; more;) {
      more = false;
      for (const Form& form : kForms)
        if (form.level == n && take(form.text)) {
          left = Expr::make(form.op, {std::move(left), n == 4 ? unary() : level(n + 1)});
          more = true;
          break;
        }
    }
    --depth_;
    return left;
  }

  Expr unary() {
    if (take("-")) {
      if (++depth_ > 4 * kMaxDepth) error("too deeply nested");
      Expr value = Expr(0) - unary();
      --depth_;
      return value;
    }
    return primary();
  }

  Expr primary() {
    if (take("(")) {
      Expr inner = level(1);
      if (!take(")")) error("expected )");
      return inner;
    }
    skip();
    const std::size_t begin = at_;
    if (at_ < text_.size() && digit(text_[at_])) return number();
    while (at_ < text_.size() && (letter(text_[at_]) || (at_ > begin && digit(text_[at_])))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) error("expected a number or a name");
    if (take("(")) return call(name);
    if (take("[")) {
      Expr index = level(1);
      if (!take("]")) error("expected ]");
      return Expr::table(name, std::move(index));
    }
    return Expr::name(name);
  }

  Expr number() {
    std::int64_t value = 0;
    while (at_ < text_.size() && digit(text_[at_])) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        error("number too large");
      ++at_;
    }
    return Expr(value);
  }

  Expr call(std::string_view name) {
    std::vector<Expr> args;
    do args.push_back(level(1));
    while (args.size() < 4 && take(","));
    if (!take(")")) error("expected )");
    for (const Form& form : kForms)
      if (form.level == 0 && form.text == name) {
        if (args.size() != (form.op == Op::cut ? 3u : 2u)) error("wrong number of arguments");
        return Expr::make(form.op, std::move(args));
      }
    error("unknown function");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

std::string print(const Expr& expr, int outer) {
  const Expr::Node& node = expr.node();
  switch (node.op) {
    case Op::number:
      return fmt::format("{}", node.value);
    case Op::name:
      return node.text;
    case Op::table:
      return fmt::format("{}[{}]", node.text, print(node.kids[0], 1));
    default:
      break;
  }
  const Form& form = form_of(node.op);
  if (form.level == 0) {
    std::string text(form.text);
    for (std::size_t i = 0; i < node.kids.size(); ++i) text += (i ? ", " : "(") + print(node.kids[i], 1);
    return text + ")";
  }
  // Left-associative: the right operand needs brackets at the same level.
  const std::string text =
      fmt::format("{} {} {}", print(node.kids[0], form.level), form.text, print(node.kids[1], form.level + 1));
  return form.level < outer ? "(" + text + ")" : text;
}

}  // namespace

Expr::Expr(std::int64_t value) : node_(std::make_shared<Node>(Node{Op::number, value, {}, {}})) {}

Expr Expr::name(std::string_view name) {
  return Expr(std::make_shared<Node>(Node{Op::name, 0, std::string(name), {}}));
}

Expr Expr::table(std::string_view name, Expr index) {
  return Expr(std::make_shared<Node>(Node{Op::table, 0, std::string(name), {std::move(index)}}));
}

Expr Expr::make(Op op, std::vector<Expr> kids) {
  const bool constant =
      std::all_of(kids.begin(), kids.end(), [](const Expr& kid) { return kid.node().op == Op::number; });
  if (constant && op != Op::cut) {
    const std::int64_t b = kids[1].node().value;
    const bool divides = op == Op::div || op == Op::mod || op == Op::up;
    if (!divides || b > 0) return Expr(apply(op, kids[0].node().value, b));
  }
  if ((op == Op::add || op == Op::sub) && kids[1].is_number(0)) return kids[0];
  if (op == Op::add && kids[0].is_number(0)) return kids[1];
  if (op == Op::mul && kids[0].is_number(1)) return kids[1];
  if (op == Op::mul && kids[1].is_number(1)) return kids[0];
  return Expr(std::make_shared<Node>(Node{op, 0, {}, std::move(kids)}));
}

Expr Expr::parse(std::string_view text) {
  if (text.size() > 4096) bad_input("an expression of {} characters is too long; at most 4096", text.size());
  return Parser(text).parse();
}

std::string Expr::str() const { return print(*this, 1); }

bool Expr::is_number(std::int64_t value) const { return node_->op == Op::number && node_->value == value; }

bool Expr::mentions(std::string_view name) const {
  if (node_->op == Op::name) return node_->text == name;
  return std::any_of(node_->kids.begin(), node_->kids.end(), [&](const Expr& kid) { return kid.mentions(name); });
}

Formula::Formula(const Expr& expr, const Scope& scope) { emit(expr, scope, 0); }

void Formula::emit(const Expr& expr, const Scope& scope, int depth) {
  const Expr::Node& node = expr.node();
  if (depth >= kMaxDepth) bad_input("expression \"{}\" is nested more than {} deep", expr.str(), kMaxDepth);
  ++size_;
  if (node.op == Op::number || node.op == Op::name) return code_.push_back(leaf(expr, scope));
  const bool binary = node.op != Op::table && node.op != Op::cut;
  const Op last = node.kids.back().node().op;
  const bool fused = binary && (last == Op::number || last == Op::name);
  // Kid i is evaluated with i results below it on the stack.
  const std::size_t on_stack = node.kids.size() - fused;
  for (std::size_t i = 0; i < on_stack; ++i) emit(node.kids[i], scope, depth + 1 + static_cast<int>(i));
  if (node.op == Op::table) return code_.push_back(leaf(expr, scope));
  if (!fused) return code_.push_back({node.op, binary ? Right::stack : Right::none, 0});
  ++size_;
  const Ins right = leaf(node.kids.back(), scope);
  code_.push_back({node.op, last == Op::number ? Right::number : Right::slot, right.value});
}

// A number, a name's slot, or the number of a table.
Formula::Ins Formula::leaf(const Expr& expr, const Scope& scope) const {
  const Expr::Node& node = expr.node();
  if (node.op == Op::number) return {node.op, Right::none, node.value};
  const auto& names = node.op == Op::name ? scope.names : scope.tables;
  // The latest of equal names wins, so a rule's `let` may shadow a parameter.
  const auto found = std::find(names.rbegin(), names.rend(), node.text);
  if (found == names.rend())
    bad_input("expression \"{}\" uses \"{}\", which is no {} of the plan", expr.str(), node.text,
              node.op == Op::name ? "name" : "table");
  return {node.op, Right::none, names.rend() - found - 1};
}

std::int64_t Formula::run(std::span<const std::int64_t> slots, std::span<const Table> tables) const {
  std::array<std::int64_t, 2 * kMaxDepth> stack;  // below the value under way
  std::int64_t value = 0;
  std::size_t below = 0;
  for (const Ins& ins : code_) {
    if (ins.right == Right::number) {
      value = apply(ins.op, value, ins.value);
    } else if (ins.right == Right::slot) {
      value = apply(ins.op, value, slots[at(ins.value)]);
    } else if (ins.right == Right::stack) {
      value = apply(ins.op, stack[--below], value);
    } else if (ins.op == Op::cut) {
      below -= 2;
      value = apply_cut(stack[below], stack[below + 1], value);
    } else if (ins.op == Op::table) {
      const Table& table = tables[at(ins.value)];
      if (value < 0 || value >= std::ssize(table))
        bad_input("index {} is outside a table of {} entries", value, table.size());
      value = table[at(value)];
    } else {
      if (&ins != code_.data()) stack[below++] = value;
      value = ins.op == Op::number ? ins.value : slots[at(ins.value)];
    }
  }
  return value;
}

}  // namespace weft
