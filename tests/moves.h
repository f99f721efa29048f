// Plans that only move rows between ranks, listed by hand: what resharding is made of, small enough to reckon when each
// row must be there. Every rank has an input `x` and an output `y`, both rows x cols; a move copies rows of one rank's
// x to the same rows of another's y, tile by tile, or goes on from there: a relay copies what has come into its own y.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/world/op.h"

namespace weft::testing {

struct Move {
  int from = 0, to = 0;
  std::int64_t first = 0, rows = 0;  // of x and y
  int origin = -1;                   // a relay: the rank whose x it is; -1: `from` itself
};

struct Moves {
  int num_ranks = 2;
  std::int64_t rows = 0, cols = 0, tile_rows = 1;
  std::vector<Move> list;
  Dtype source = Dtype::f32, target = Dtype::f32;  // of x and of y
};

// One trigger per move, in listed order, after one with which a rank opens its y. tile_rows divides `first` and `rows`.
Plan plan_of(const Moves& moves);
void run(Op& op, const void* x);  // of such a plan; x of `source`

}  // namespace weft::testing
