// A plan in the language of the model checker spin: an independent judge of promises 2 to 4 for small plans.
// Every timing of a few runs is searched, so what it says holds without any of the arguments that verify()
// rests on.
//
//   lane       a process for every lane of every run: waits are met; sources are read for a while; results at home and
//              signals without data land; then each store to another rank lands by itself, in any order, the last one
//              to a rank together with the signals that cover it
//   steps      in listed order or, as the search chooses, all at once, as many threads would
//   rank       opens its next run when its lanes have been issued; its caller reads the outputs in between
//   region     what no box of the plan cuts: holds the number of the run that wrote it, and how many read it now
//
// A store into a region that is being read, that has been written in this run, or whose last run is missing,
// and a read of another run's data fail an assertion; a deadlock is an invalid end state. Sums are not
// modelled.
#pragma once

#include <string>

#include "weft/plan/plan.h"

namespace weft {

// Throws bad_input for plans that are too large to search, or whose buffers have several copies.
std::string to_promela(const Plan& plan, int runs = 2);

}  // namespace weft
