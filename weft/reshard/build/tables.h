// Nodes written as a plan: few rules over a few tables, so that a rank expands only its own part and a plan for many
// ranks still prints on a page.
//
// columns.h names what their rows hold:
//
//   first   where the rows of each rank begin in a table, N + 1 numbers for each list of rows
//   shard   for each tensor and rank: where its shard begins in the destination tensor, and its sizes
//   node    for each rank: the boxes it sends, passes on or keeps, with order, `full` counter and kids
//   kid     for each kid of a node: rank, arrival and open counter (nodes.h)
//   open    for each rank: its parents, and its counter there
//   done    for each rank: what its `done` counters grow by
//   owed    for each rank: boxes of its destination shards, and whose source they come from
#pragma once

#include <string>

#include "weft/plan/plan.h"
#include "weft/reshard/build/nodes.h"

namespace weft::resharding {

// Without a producer: roots read the sources. With one, they are its steps, and there are no source buffers.
Plan write_plan(const std::string& name, const Reshard& reshard, const Nodes& nodes,
                const Producer* producer = nullptr);

}  // namespace weft::resharding
