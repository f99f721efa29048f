// Words for writing rules: waits, pieces and signals by name instead of by position.
//
//   wait(full).index(c * slot).per_lane().when(own)      full[c * slot + lane] of this rank is at least 1, where `own`
//   wait(used).reaches(tiles)                            used[0] has grown by `tiles` in this run
//   wait(credit).index(c).lag(1)                         credit[c] is at least 1 for the run before
//   piece(inbox, box).of(next).each(N - 1)               `box` of rank next's inbox, for j < N - 1
//   signal(next, full).index(i * slot + u).per_lane()    adds 1 to full[i * slot + u + lane] of rank next
//
// What is not said keeps the default of plan.h. Each is a value that becomes a WaitRule, PieceRule or SignalRule where
// one is wanted.
#pragma once

#include <utility>

#include "weft/plan/plan.h"

namespace weft {

// What all of them can say: for j < `each`, where `when` is not 0.
template <typename Self, typename Rule>
class RuleWords {
 public:
  Self& each(Expr count) { return set(&Rule::each, std::move(count)); }
  Self& when(Expr condition) { return set(&Rule::when, std::move(condition)); }
  operator Rule() const { return rule_; }  // NOLINT: the words are the rule

 protected:
  Self& set(Expr Rule::*field, Expr value) {
    rule_.*field = std::move(value);
    return static_cast<Self&>(*this);
  }
  Rule rule_;
};

// What names a counter: which one of its family, and whether each lane has its own.
template <typename Self, typename Rule>
class CounterWords : public RuleWords<Self, Rule> {
 public:
  Self& index(Expr index) { return this->set(&Rule::index, std::move(index)); }
  Self& per_lane() { return per_lanes(1); }
  Self& per_lanes(Expr lanes) { return this->set(&Rule::per, std::move(lanes)); }  // so many lanes share a counter
};

class WaitWords : public CounterWords<WaitWords, WaitRule> {
 public:
  explicit WaitWords(int counter) { rule_.counter = counter; }
  WaitWords& reaches(Expr value) { return set(&WaitRule::at, std::move(value)); }
  WaitWords& lag(int runs) {
    rule_.lag = runs;
    return *this;
  }
};

class PieceWords : public RuleWords<PieceWords, PieceRule> {
 public:
  PieceWords(int buffer, BoxRule box) {
    rule_.buffer = buffer;
    rule_.box = std::move(box);
  }
  PieceWords& of(Expr rank) { return set(&PieceRule::rank, std::move(rank)); }  // else this rank's own
};

class SignalWords : public CounterWords<SignalWords, SignalRule> {
 public:
  SignalWords(Expr rank, int counter) {
    rule_.rank = std::move(rank);
    rule_.counter = counter;
  }
};

inline WaitWords wait(int counter) { return WaitWords(counter); }
inline PieceWords piece(int buffer, BoxRule box) { return {buffer, std::move(box)}; }
inline SignalWords signal(Expr rank, int counter) { return {std::move(rank), counter}; }

}  // namespace weft
