// Numbers that depend on an unknown rank r, in the one form that renumbering respects:
//
//   b + a1 * ((e1 + x) mod n) + a2 * ((e2 + y) mod m) + ...
//
// where x, y, ... are the digits of r (digits.h), and all else is known. r itself is of that form, and so is what rules
// make of it: `(r - 1 - s) % N`, `r / L`, `cut(m, N, c)` where N divides m. A result that is not of that form is
// "unknown", and stays so; whoever needs it has no proof. A comparison has a value only where it is the same for all r.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/plan/expr.h"
#include "weft/sim/net/digits.h"

namespace weft::netsim {

struct Term {
  std::int64_t a;
  std::int32_t digit, e;
};

class Symbolic {
 public:
  static constexpr int kMaxTerms = 16;

  Symbolic(std::int64_t b = 0) : b_(b) {}  // NOLINT: numbers are symbolic numbers
  Symbolic(const Symbolic& other) { *this = other; }
  Symbolic& operator=(const Symbolic& other) {
    b_ = other.b_, size_ = other.size_, known_ = other.known_;
    for (int i = 0; i < size_; ++i) terms_[at(i)] = other.terms_[at(i)];
    return *this;
  }
  static Symbolic unknown() {
    Symbolic out;
    out.known_ = false;
    return out;
  }
  static Symbolic rank(const Digits& digits);

  bool is_known() const { return known_; }
  bool is_constant() const { return known_ && size_ == 0; }
  std::int64_t b() const { return b_; }
  std::span<const Term> terms() const { return {terms_.data(), at(size_)}; }

  void add(const Term& term, const Digits& digits);  // keeps the form; too many terms: unknown
  void add(std::int64_t value);

  // Digits of 2 have two spellings of a term, a * x and a - a * ((1 + x) mod 2). This one has a > 0, for reading only.
  Symbolic positive(const Digits& digits) const;

 private:
  void check();
  std::int64_t b_ = 0;
  std::int32_t size_ = 0;
  bool known_ = true;
  std::array<Term, kMaxTerms> terms_;
};

// What names stand for, in slot order.
class Slots {
 public:
  const Symbolic& operator[](std::int64_t slot) const { return values_[at(slot)]; }
  std::span<const std::int64_t> constants() const { return constants_; }
  std::size_t size() const { return values_.size(); }
  void push(const Symbolic& value) { values_.push_back(value), constants_.push_back(value.b()); }
  void set(std::size_t slot, std::int64_t value) { values_[slot] = value, constants_[slot] = value; }
  void shrink(std::size_t size) { values_.resize(size), constants_.resize(size); }

 private:
  std::vector<Symbolic> values_;
  std::vector<std::int64_t> constants_;  // of those that depend on no rank
};

// An expression over slots: its value for all r at once.
class SymbolicFormula {
 public:
  SymbolicFormula(const Expr& expr, const Scope& scope);
  Symbolic eval(const Slots& slots, std::span<const Table> tables, const Digits& digits) const;

 private:
  struct Instruction {
    Expr::Op op;
    std::int64_t value;
  };
  void emit(const Expr& expr, const Scope& scope);
  std::vector<Instruction> code_;
  Formula plain_;  // where no name depends on the rank
};

}  // namespace weft::netsim
