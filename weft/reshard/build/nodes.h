// A schedule as work for ranks: every chunk's tree of hops becomes nodes, one for each rank that passes the chunk on.
// A node reads the chunk where its rank has it (the root in its source shard, a relay in its destination shard, where
// it has just arrived) and stores it, tile by tile, in the destination shards of its kids. So nothing is staged
// anywhere.
//
//   full   one counter per tile on every relay, raised by its parent: the relay passes the tile on
//   done   one counter on every leaf for each parent it has, raised for every tile
//   open   one counter on every parent for each kid it has, raised once per run: the kid's shard may be written again
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "weft/reshard/schedule/schedule.h"

namespace weft::resharding {

struct Kid {
  int rank = 0;
  std::int64_t arrival = 0;  // >= 0: its first `full` counter of this chunk; else -1 - its `done` counter
  std::int64_t open = 0;     // on the parent
};

enum class NodeKind { root, relay, keep };  // keep: the rank holds what it wants, and copies it

struct Node {
  NodeKind kind = NodeKind::root;
  int rank = 0, transfer = 0, part = 0;
  Box box;                             // in the destination tensor's coordinates
  std::array<std::int64_t, 2> tile{};  // of its lanes: plan.h
  std::int64_t full = 0;  // relays: its first counter; roots: 0 where a step also stores its own copy, else -1
  std::vector<Kid> kids;
  std::int64_t order = 0, order_step = 0;
  int depth = 0;     // hops from the root
  double end_s = 0;  // of the chunk, as scheduled
};

// What a rank must find in a box of its destination shard: the values of `root`'s source shard.
struct Arrival {
  int rank = 0, transfer = 0, part = 0, root = 0;
  Box box;
};

struct Nodes {
  std::vector<Node> nodes;  // by rank, then in the order in which they should go
  std::vector<Arrival> arrivals;
  std::vector<std::int64_t> num_full, num_open;  // of each rank
  std::vector<std::vector<std::int64_t>> done;   // of each rank: what each of its `done` counters grows by
  std::vector<std::vector<std::pair<int, std::int64_t>>> opens;  // of each rank: its parents, and its counter there
};

// Who cuts a chunk into tiles. Steps of a producer have tiles of their own.
struct Tiling {
  std::int64_t tile_bytes = 0;              // 0: from the chunk, its hops and the network
  std::array<std::int64_t, 2> fixed{0, 0};  // not 0: roots make tiles of this size, each once, for all who want it
  double message_s = 0;                     // what a message costs beside its bytes
  double cores = 0;                         // that all ranks share; 0: each has its own
};

// Throws bad_input where the schedule is not one of these tasks: a hop from a rank that has nothing, to one that wants
// nothing, or an element that does not reach a receiver.
Nodes nodes_of(const Reshard& reshard, const std::vector<Task>& tasks, const Schedule& schedule, const Network& network,
               const Tiling& tiling);

}  // namespace weft::resharding
