// The (task, sender) pairs that searches without cutting choose from, with what each does to the NICs.
#pragma once

#include <vector>

#include "weft/reshard/schedule/choose.h"

namespace weft {

struct Candidate {
  Slice slice;
  std::vector<Use> uses;  // NICs only
  double seconds = 0;

  double begin_s(const std::vector<double>& free_at) const;  // the first time at which all its NICs are free
};

struct Candidates {
  std::vector<std::vector<Candidate>> of;  // by crossing task
  std::vector<int> tasks;                  // those that cross hosts
  std::vector<int> twin_before;            // of each: an earlier one with the same sites and bytes, -1 where none

  // Least seconds that the tasks not yet run put on a resource, whoever sends them, per crossing task.
  std::vector<std::vector<Use>> least;
};

Candidates candidates(const TaskSet& set);

// Slices in the order searched, then those that cross no host.
std::vector<Slice> slices_of(const TaskSet& set, const std::vector<const Candidate*>& found);
std::vector<Slice> with_local(const TaskSet& set, std::vector<Slice> slices);

}  // namespace weft
