// What the adversary plays with: a plan laid out lane by lane, and what every rank is owed in every run, as
// terms.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "weft/plan/program.h"

#include "tests/mutants/adversary.h"

namespace weft::mutants {

using Term = std::uint64_t;

inline Term mix(Term x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline Term pair(Term a, Term b) { return mix(mix(a + 0x9e3779b97f4a7c15u) ^ (b + 0x632be59bd9b4e019u)); }
inline Term sum(Term a, Term b) { return mix(a + b); }
Term leaf(int run, int rank, int source, std::int64_t row, std::int64_t col);
// One element of a product whose row of x is given as one term.
Term product(int run, int rank, Term row_of_x, std::int64_t col);

struct Place {  // a 2-d box of a buffer
  int rank, buffer;
  std::int64_t row, col, rows, cols;
};

struct LaneWait {
  int counter;
  std::int64_t at;
  int lag;
};

struct Lane {
  bool is_step = false, finish = false;
  int producer = -1;
  Place box{};  // logical
  bool has_data = false;
  std::vector<LaneWait> waits;
  std::vector<Place> reads, sources, targets;
  std::vector<Signal> signals;  // counters already those of this lane
};

struct DueTerms {
  Place place;
  std::vector<std::vector<Term>> terms;  // [run], row-major
};

struct Adversary::Scene {
  Plan plan;
  int runs = 3;
  bool several_copies = false;           // of some buffer
  std::string broken;                    // not empty: no timing is needed to see that it is wrong
  std::vector<std::vector<Lane>> lanes;  // [rank], in listed order
  std::vector<std::vector<std::array<std::int64_t, 2>>> shapes;  // [rank][buffer]
  std::vector<std::vector<std::int64_t>> totals;                 // [rank][counter]
  std::vector<std::vector<DueTerms>> due;                        // [rank], outputs only

  explicit Scene(const Plan& plan);
  Term finished(const Lane& lane, Term value, std::int64_t row, std::int64_t col) const;

 private:
  void add_lanes(const Program& program);
  void add_due(const Expander& expander, int rank);
  void check(const Lane& lane, int rank);
  Term owed_term(const Expander::Due& due, int run, std::int64_t row, std::int64_t col) const;
};

}  // namespace weft::mutants
