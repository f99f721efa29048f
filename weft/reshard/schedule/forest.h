// The trees of hops that carry a slice by broadcast: one for every rank that sends it out of a host that holds it.
#pragma once

#include <vector>

#include "weft/reshard/schedule/slices.h"

namespace weft {

// Every receiver that needs the slice from another host is reached once, each outlet sends its number of copies, and
// every host is entered by its entry; what stays inside hosts is there too. Hosts that send on are reached before those
// that do not, so that any numbers of copies make trees; among them those of the sender's own rack.
std::vector<Chunk> forest(const Slice& slice, const Task& task, const Sites& sites, const Network& network);

// Hops from `root`, a rank of the site that has the box, to the ranks there that want it and do not hold it.
void spread(const Site& site, int root, std::vector<Hop>& hops);

// Chunks without crossings: for the ranks of holding hosts that want the slice and that no tree from one of `roots`
// serves.
std::vector<Chunk> inside(const Slice& slice, const Task& task, const Sites& sites, const std::vector<int>& roots);

}  // namespace weft
