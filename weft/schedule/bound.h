// The least time that any schedule can take, and why. Let head(p) be the earliest begin of a forward at position p: the
// forwards and transfers before it. Let turn(p) be the earliest begin of a backward there: all forwards, and the
// backward inputs and transfers from the end to p. Let tail(p) be the least time from the end of a backward input at p
// to the end of everything: its way to the front, and the weights' part at one of the positions on it. Then for each
// stage
//
//   work    nothing is done before head of its first position, and before turn of its last only forwards (and their
//           recomputation), of no more micro-batches than memory holds. The rest of its work comes after.
//   drain   the same without the weights' part; and after its last backward input comes tail of its first position.
//   memory  a micro-batch is held from the begin of its forward to the end of its backward, on one of `memory`
//           slots, and some slot sees at least a share of them, one after another.
//   refill  when its last forward begins, all others are done, and all micro-batches but what memory holds are
//           released; then comes the way to the end and back.
//   link    as many transfers as there are micro-batches, one after another, between what must come before the first
//           and after the last.
//
// Where transfers block, a stage's work includes what it sends.
#pragma once

#include <string>

#include "weft/schedule/costs.h"

namespace weft::pipeline {

struct BoundOptions {
  int micro_batches = 1, chunks = 1;
  int memory = 0;          // activations that a stage may hold; 0: any number
  bool recompute = false;  // every backward has its recompute
};

struct Bound {
  double seconds = 0;
  std::string why;  // "work of stage 2"
};

// No schedule of these sizes, whole or split backward, in any order, is shorter. Throws as check_sizes and check_costs.
Bound lower_bound(const Costs& costs, const BoundOptions& options);

}  // namespace weft::pipeline
