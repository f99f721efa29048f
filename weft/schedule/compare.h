// The known schedules side by side for given costs: as they are, and within one memory for all. A kind that needs more
// has two ways: fewer forwards ahead (BuildOptions::memory), or smaller micro-batches, each cut into as many as it
// takes, with work and transfers as much shorter. The faster of the two is taken. Within the memory of 1f1b the first
// way makes eager_1f1b the same as 1f1b.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/schedule/build.h"
#include "weft/schedule/check.h"
#include "weft/schedule/costs.h"
#include "weft/schedule/timing.h"

namespace weft::pipeline {

struct Compared {
  Schedule schedule;
  Verdict verdict;
  Timing timing;
};

struct ComparedKind {
  Kind kind = Kind::one_f_one_b;
  std::optional<Compared> free, within;  // without a limit, and within the memory; none: refused, see `why`
  int cut = 1;                           // `within`: into how many each micro-batch is cut; peaks are of whole ones
  std::string why;
};

// `options.kind` is passed over; a memory of 0 becomes that of 1f1b: one activation per stage, or per micro-batch if
// those are fewer. Throws bad_input for sizes and costs that no kind can have.
std::vector<ComparedKind> compare_kinds(const Costs& costs, BuildOptions options);
int equal_memory(const BuildOptions& options);  // the limit that compare_kinds takes

Compared compared(const Schedule& schedule, const Costs& costs);

}  // namespace weft::pipeline
