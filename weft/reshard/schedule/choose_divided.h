// Our choice: loads as the bound divides them. A task stays whole where its NICs allow; otherwise its box is cut where
// its shares change, and each part has its own sender, entries and relays.
#pragma once

#include <vector>

#include "weft/reshard/bound/bound.h"
#include "weft/reshard/schedule/choose.h"

namespace weft {

std::vector<Slice> choose_divided(const TaskSet& set, const Loads& loads);

// The boxes between cuts at the given fractions (ascending, between 0 and 1), along whole indices of one dimension: the
// outermost that has an index at every cut, else the longest, where a cut is off by at most half an index. One more
// than the fractions; some may be empty.
std::vector<Box> cut_at(const Box& box, const std::vector<double>& fractions);

}  // namespace weft
