// Integer expressions over a rank and a loop index: the rank rules of a plan. `(r - 1 - s) % N` written once
// stands for the chunk of every rank and every step, so a plan for 1024 ranks prints on one page.
//
//   numbers, names, + - * / % (mathematical: floor and non-negative remainder), == != < <= > >= &
//   cut(total, parts, i)   where part i begins when `total` is cut into `parts`
//   up(a, b)               a / b rounded up;   min(a, b), max(a, b)
//   name[i]                entry i of a table of the plan
//
// Names: r this rank, N ranks, s the loop of a rule, j the loop of one wait, piece or signal, i a counter's
// index; then the plan's parameters and a rule's own `let` names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Expr {
 public:
  enum class Op : std::uint8_t {
    number,
    name,
    table,
    add,
    sub,
    mul,
    div,
    mod,
    eq,
    ne,
    lt,
    le,
    gt,
    ge,
    both,
    cut,
    up,
    min,
    max
  };
  struct Node;

  Expr(std::int64_t value = 0);  // NOLINT: numbers are expressions
  static Expr name(std::string_view name);
  static Expr table(std::string_view name, Expr index);
  static Expr make(Op op, std::vector<Expr> kids);
  static Expr parse(std::string_view text);  // throws bad_input with the text and the place

  std::string str() const;
  bool is_number(std::int64_t value) const;
  bool mentions(std::string_view name) const;
  const Node& node() const { return *node_; }

 private:
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

struct Expr::Node {
  Op op;
  std::int64_t value = 0;
  std::string text;
  std::vector<Expr> kids;
};

inline Expr operator+(Expr a, Expr b) { return Expr::make(Expr::Op::add, {std::move(a), std::move(b)}); }
inline Expr operator-(Expr a, Expr b) { return Expr::make(Expr::Op::sub, {std::move(a), std::move(b)}); }
inline Expr operator*(Expr a, Expr b) { return Expr::make(Expr::Op::mul, {std::move(a), std::move(b)}); }
inline Expr operator/(Expr a, Expr b) { return Expr::make(Expr::Op::div, {std::move(a), std::move(b)}); }
inline Expr operator%(Expr a, Expr b) { return Expr::make(Expr::Op::mod, {std::move(a), std::move(b)}); }
inline Expr eq(Expr a, Expr b) { return Expr::make(Expr::Op::eq, {std::move(a), std::move(b)}); }
inline Expr ne(Expr a, Expr b) { return Expr::make(Expr::Op::ne, {std::move(a), std::move(b)}); }
inline Expr lt(Expr a, Expr b) { return Expr::make(Expr::Op::lt, {std::move(a), std::move(b)}); }
inline Expr gt(Expr a, Expr b) { return Expr::make(Expr::Op::gt, {std::move(a), std::move(b)}); }
inline Expr both(Expr a, Expr b) { return Expr::make(Expr::Op::both, {std::move(a), std::move(b)}); }
inline Expr cut(Expr total, Expr parts, Expr i) {
  return Expr::make(Expr::Op::cut, {std::move(total), std::move(parts), std::move(i)});
}
inline Expr up(Expr a, Expr b) { return Expr::make(Expr::Op::up, {std::move(a), std::move(b)}); }
inline Expr min(Expr a, Expr b) { return Expr::make(Expr::Op::min, {std::move(a), std::move(b)}); }
inline Expr max(Expr a, Expr b) { return Expr::make(Expr::Op::max, {std::move(a), std::move(b)}); }

using Table = std::vector<std::int64_t>;

// The names an expression may use, in slot order; tables apart.
struct Scope {
  std::vector<std::string> names;
  std::vector<std::string> tables;
};

// An expression with its names turned into slots: evaluated millions of times while a plan is expanded.
class Formula {
 public:
  Formula() = default;
  Formula(const Expr& expr, const Scope& scope);  // throws bad_input on an unknown name

  std::size_t size() const { return size_; }  // numbers, names and operators of the expression

  // Throws bad_input on overflow, a division by zero or an index outside a table.
  std::int64_t eval(std::span<const std::int64_t> slots, std::span<const Table> tables) const {
    if (code_.size() == 1 && code_[0].op == Expr::Op::number) return code_[0].value;
    if (code_.size() == 1 && code_[0].op == Expr::Op::name) return slots[code_[0].value];
    return run(slots, tables);
  }

 private:
  // Nearly every second operand is a number or a name: it is part of its operator's instruction.
  enum class Right : std::uint8_t { none, stack, number, slot };
  struct Ins {
    Expr::Op op;
    Right right;
    std::int64_t value;
  };
  std::int64_t run(std::span<const std::int64_t> slots, std::span<const Table> tables) const;
  void emit(const Expr& expr, const Scope& scope, int depth);
  Ins leaf(const Expr& expr, const Scope& scope) const;
  std::vector<Ins> code_;
  std::size_t size_ = 0;
};

}  // namespace weft
