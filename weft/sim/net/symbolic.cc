#include "weft/sim/net/symbolic.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/mesh/box.h"

namespace weft::netsim {
namespace {

using Op = Expr::Op;

constexpr std::int64_t kLargest = std::int64_t{1} << 40;  // beyond it a value is unknown: no sum of them overflows
constexpr std::int64_t kMostCases = 4096;                 // of digits that one comparison tries

bool is_small(std::int64_t value) { return value > -kLargest && value < kLargest; }

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

struct Bounds {
  std::int64_t low = 0, high = 0;
};

Bounds bounds_of(const Symbolic& value, const Digits& digits) {
  Bounds out{value.b(), value.b()};
  for (const Term& t : value.terms()) (t.a > 0 ? out.high : out.low) += t.a * (digits.size(t.digit) - 1);
  return out;
}

Symbolic sum_of(const Symbolic& x, const Symbolic& y, std::int64_t times, const Digits& digits) {
  if (!x.is_known() || !y.is_known()) return Symbolic::unknown();
  Symbolic out = x;
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(y.b(), times, &scaled)) return Symbolic::unknown();
  out.add(scaled);
  for (const Term& t : y.terms()) {
    if (__builtin_mul_overflow(t.a, times, &scaled)) return Symbolic::unknown();
    out.add({scaled, t.digit, t.e}, digits);
  }
  return out;
}

Symbolic scaled_by(const Symbolic& x, std::int64_t times, const Digits& digits) {
  return sum_of(Symbolic(0), x, times, digits);
}

Symbolic product(const Symbolic& x, const Symbolic& y, const Digits& digits) {
  if (x.is_constant()) return x.b() == 0 ? Symbolic(0) : scaled_by(y, x.b(), digits);
  if (y.is_constant()) return y.b() == 0 ? Symbolic(0) : scaled_by(x, y.b(), digits);
  return Symbolic::unknown();
}

// x = times of m, apart, + rest.
struct Divided {
  Symbolic quotient, rest;
};
Divided divided(const Symbolic& x, std::int64_t m, const Digits& digits) {
  Divided out;
  out.rest.add(x.b());
  for (const Term& t : x.terms()) {
    if (t.a % m == 0)
      out.quotient.add({t.a / m, t.digit, t.e}, digits);
    else
      out.rest.add(t, digits);
  }
  return out;
}

Symbolic quotient(const Symbolic& x, std::int64_t m, bool up, const Digits& digits) {
  if (m <= 0) return Symbolic::unknown();
  Divided parts = divided(x, m, digits);
  const Bounds rest = bounds_of(parts.rest, digits);
  const std::int64_t extra = up ? m - 1 : 0;
  const std::int64_t low = floor_div(rest.low + extra, m), high = floor_div(rest.high + extra, m);
  if (low != high) return Symbolic::unknown();
  parts.quotient.add(low);
  return parts.quotient;
}

// Where the rest wraps, it must do so by one digit of its own: a * n = m, and all below it stays below a.
Symbolic remainder(const Symbolic& x, std::int64_t m, const Digits& digits) {
  if (m <= 0) return Symbolic::unknown();
  Symbolic rest = divided(x, m, digits).rest.positive(digits);
  const Bounds all = bounds_of(rest, digits);
  if (floor_div(all.low, m) == floor_div(all.high, m)) {
    rest.add(-floor_div(all.low, m) * m);
    return rest;
  }
  for (const Term& top : rest.terms()) {
    if (top.a <= 0 || top.a * digits.size(top.digit) != m) continue;
    Symbolic below(rest.b());
    for (const Term& t : rest.terms())
      if (&t != &top) below.add(t, digits);
    const Bounds range = bounds_of(below, digits);
    const std::int64_t carry = floor_div(range.low, top.a);
    if (!below.is_known() || carry != floor_div(range.high, top.a)) continue;
    const std::int64_t size = digits.size(top.digit), moved = ((top.e + carry) % size + size) % size;
    below.add(-carry * top.a);
    below.add({top.a, top.digit, static_cast<std::int32_t>(moved)}, digits);
    return below;
  }
  return Symbolic::unknown();
}

bool holds(Op op, std::int64_t difference) {
  switch (op) {
    case Op::eq:
      return difference == 0;
    case Op::ne:
      return difference != 0;
    case Op::lt:
      return difference < 0;
    case Op::le:
      return difference <= 0;
    case Op::gt:
      return difference > 0;
    default:
      return difference >= 0;
  }
}

// Two terms a * (digit plus e) - a * (digit plus another e) differ by a or more: is that more than all the rest?
bool never_zero(const Symbolic& d, const Digits& digits) {
  for (const Term& one : d.terms())
    for (const Term& other : d.terms()) {
      if (one.a <= 0 || one.digit != other.digit || one.a != -other.a || one.e == other.e) continue;
      Symbolic rest(d.b());
      for (const Term& t : d.terms())
        if (&t != &one && &t != &other) rest.add(t, digits);
      const Bounds range = bounds_of(rest, digits);
      if (rest.is_known() && range.low > -one.a && range.high < one.a) return true;
    }
  return false;
}

// By bounds; by two digits that are never equal; else by trying all digits that the difference depends on.
Symbolic compared(Op op, const Symbolic& x, const Symbolic& y, const Digits& digits) {
  const Symbolic d = sum_of(x, y, -1, digits);
  if (!d.is_known()) return Symbolic::unknown();
  const Bounds range = bounds_of(d, digits);
  if (d.is_constant() || range.low > 0 || range.high < 0) return holds(op, range.low);
  const auto terms = d.terms();
  if ((op == Op::eq || op == Op::ne) && never_zero(d, digits)) return op == Op::ne;
  std::vector<int> used;
  std::int64_t cases = 1;
  for (const Term& t : terms)
    if (std::find(used.begin(), used.end(), t.digit) == used.end()) {
      used.push_back(t.digit);
      cases *= digits.size(t.digit);
      if (cases > kMostCases) return Symbolic::unknown();
    }
  bool first = false;
  for (std::int64_t i = 0; i < cases; ++i) {
    std::int64_t rest = i, value = d.b();
    for (const int digit : used) {
      const std::int64_t x_digit = rest % digits.size(digit);
      rest /= digits.size(digit);
      for (const Term& t : terms)
        if (t.digit == digit) value += t.a * ((t.e + x_digit) % digits.size(digit));
    }
    if (i == 0) first = holds(op, value);
    if (holds(op, value) != first) return Symbolic::unknown();
  }
  return first;
}

Symbolic cut_at(const Symbolic& total, const Symbolic& parts, const Symbolic& i, const Digits& digits) {
  if (!total.is_constant() || !parts.is_constant() || !i.is_known() || parts.b() <= 0 || total.b() < 0)
    return Symbolic::unknown();
  const Bounds range = bounds_of(i, digits);
  if (range.low < 0 || range.high > parts.b()) return Symbolic::unknown();
  const std::int64_t each = total.b() / parts.b(), left = total.b() % parts.b();
  if (i.is_constant()) return cut(total.b(), parts.b(), i.b());
  if (left == 0 || range.low >= left) return sum_of(Symbolic(left), i, each, digits);
  return range.high <= left ? scaled_by(i, each + 1, digits) : Symbolic::unknown();
}

Symbolic applied(Op op, const Symbolic& x, const Symbolic& y, const Digits& digits) {
  if (op == Op::mul) return product(x, y, digits);
  if (op == Op::both) {
    if ((x.is_constant() && x.b() == 0) || (y.is_constant() && y.b() == 0)) return Symbolic(0);
    return x.is_constant() && y.is_constant() ? Symbolic(1) : Symbolic::unknown();
  }
  if (!x.is_known() || !y.is_known()) return Symbolic::unknown();
  switch (op) {
    case Op::add:
      return sum_of(x, y, 1, digits);
    case Op::sub:
      return sum_of(x, y, -1, digits);
    case Op::div:
    case Op::up:
      return y.is_constant() ? quotient(x, y.b(), op == Op::up, digits) : Symbolic::unknown();
    case Op::mod:
      return y.is_constant() ? remainder(x, y.b(), digits) : Symbolic::unknown();
    case Op::min:
    case Op::max: {
      const Symbolic less = compared(Op::le, x, y, digits);
      if (!less.is_constant()) return Symbolic::unknown();
      return (less.b() != 0) == (op == Op::min) ? x : y;
    }
    default:
      return compared(op, x, y, digits);
  }
}

}  // namespace

void Symbolic::check() {
  if (!is_small(b_)) known_ = false;
  for (int i = 0; i < size_; ++i)
    if (!is_small(terms_[at(i)].a)) known_ = false;
  if (!known_) size_ = 0;
}

void Symbolic::add(std::int64_t value) {
  if (!is_small(value)) known_ = false;
  if (known_) b_ += value;
  check();
}

void Symbolic::add(const Term& in, const Digits& digits) {
  if (!known_ || in.a == 0 || digits.size(in.digit) == 1) return;
  if (!is_small(in.a)) {
    *this = unknown();
    return;
  }
  Term term = in;
  if (digits.size(term.digit) == 2 && term.e == 1) {  // 1 - x
    add(term.a);
    term.a = -term.a, term.e = 0;
  }
  for (int i = 0; i < size_; ++i) {
    Term& mine = terms_[at(i)];
    if (mine.digit != term.digit || mine.e != term.e) continue;
    mine.a += term.a;
    if (mine.a == 0) mine = terms_[at(--size_)];
    return check();
  }
  if (size_ == kMaxTerms) {
    *this = unknown();
    return;
  }
  terms_[at(size_++)] = term;
}

Symbolic Symbolic::rank(const Digits& digits) {
  Symbolic out;
  for (int d = 0; d < digits.num(); ++d) out.add({digits.stride(d), d, 0}, digits);
  return out;
}

Symbolic Symbolic::positive(const Digits& digits) const {
  Symbolic out = *this;
  for (int i = 0; i < size_; ++i)
    if (Term& t = out.terms_[at(i)]; t.a < 0 && digits.size(t.digit) == 2) {
      out.b_ += t.a;
      t.a = -t.a, t.e = 1;
    }
  return out;
}

SymbolicFormula::SymbolicFormula(const Expr& expr, const Scope& scope) : plain_(expr, scope) { emit(expr, scope); }

void SymbolicFormula::emit(const Expr& expr, const Scope& scope) {
  const Expr::Node& node = expr.node();
  for (const Expr& kid : node.kids) emit(kid, scope);
  std::int64_t value = node.value;
  if (node.op == Op::name || node.op == Op::table) {
    const auto& names = node.op == Op::name ? scope.names : scope.tables;
    // The last of a name counts: a rule's own hides the plan's.
    const auto found = std::find(names.rbegin(), names.rend(), node.text);
    if (found == names.rend()) bad_input("unknown name \"{}\" in an expression", node.text);
    value = names.rend() - found - 1;
  }
  code_.push_back({node.op, value});
}

Symbolic SymbolicFormula::eval(const Slots& slots, std::span<const Table> tables, const Digits& digits) const {
  if (code_.size() == 1 && code_[0].op == Op::name) return slots[code_[0].value];
  const bool is_plain = std::all_of(code_.begin(), code_.end(), [&](const Instruction& ins) {
    return ins.op != Op::name || slots[ins.value].is_constant();
  });
  if (is_plain) return plain_.eval(slots.constants(), tables);
  std::vector<Symbolic> stack;
  stack.reserve(8);
  for (const Instruction& ins : code_) {
    if (ins.op == Op::number) {
      stack.emplace_back(ins.value);
    } else if (ins.op == Op::name) {
      stack.push_back(slots[ins.value]);
    } else if (ins.op == Op::table) {
      const Table& table = tables[at(ins.value)];
      Symbolic& top = stack.back();
      const bool inside = top.is_constant() && top.b() >= 0 && at(top.b()) < table.size();
      top = inside ? Symbolic(table[at(top.b())]) : Symbolic::unknown();
    } else if (ins.op == Op::cut) {
      const Symbolic i = stack.back();
      stack.pop_back();
      const Symbolic parts = stack.back();
      stack.pop_back();
      stack.back() = cut_at(stack.back(), parts, i, digits);
    } else {
      const Symbolic y = stack.back();
      stack.pop_back();
      stack.back() = applied(ins.op, stack.back(), y, digits);
    }
  }
  return stack.back();
}

}  // namespace weft::netsim
