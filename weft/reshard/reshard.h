// Cross-mesh resharding, described: sharded tensors on some ranks that are wanted, sharded otherwise, on others. Pure
// values. The way from here to a plan:
//
//   Reshard --tasks()--> Task: one box, who holds it, who wants it
//           --schedule()--> Schedule: who sends which part of it, along which hops, when (schedule.h)
//           --build()--> Plan (build.h), verified and run like any other
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/mesh/box.h"
#include "weft/mesh/mesh.h"
#include "weft/mesh/sharding.h"

namespace weft {

// A mesh laid over ranks of the world: ranks[i] is the one at place i of the mesh. Placements may share ranks.
struct Placement {
  std::string name;
  Mesh mesh;
  std::vector<int> ranks;
};

struct ShardedTensor {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::f32;
  int placement = 0;  // in Reshard::placements
  Sharding sharding;  // no partial sums
};

// A source tensor and where its element 0 stands in the destination tensor; the two have as many dimensions.
struct Part {
  ShardedTensor tensor;
  std::vector<std::int64_t> at;
};

// One destination tensor and the source tensors it is made of: one at 0, or several side by side (q, k and v). The
// parts must cover the destination and not overlap.
struct Transfer {
  std::vector<Part> parts;
  ShardedTensor destination;
};

struct Reshard {
  std::vector<Placement> placements;
  std::vector<Transfer> transfers;
  int num_ranks = 0;  // of the world
};

// The unit of choice: a box of a destination tensor that lies in one source tile and one destination tile.
struct Task {
  int transfer = 0, part = 0;
  Box box;                     // in the destination tensor's coordinates
  std::int64_t bytes = 0;      // on the wire: in the narrower of the two dtypes
  std::vector<int> senders;    // ranks that hold it, ascending
  std::vector<int> receivers;  // ranks that want it, ascending; some may be senders too
};

// Throws bad_input where a layout is wrong: an axis used twice, a spec of the wrong length, a zero size, parts that
// overlap or leave a gap, dtypes that do not convert (f32 and bf16 do, equal ones do), ranks outside the world or used
// twice.
void check_reshard(const Reshard& reshard);

// Of a transfer as it travels: in the narrowest dtype of its ends.
std::int64_t wire_bytes(const Transfer& transfer);

// In order of transfers, then of destination tiles, then of source tiles, row-major.
std::vector<Task> tasks(const Reshard& reshard);

// One tensor between two disjoint meshes of hosts x devices, as `weft reshard --src 2x4 --dst 2x4` says it: the source
// on ranks 0 .., the destination on those after it, both meshes with axes "host" and "device".
Reshard one_tensor(const Shape& shape, Dtype dtype, const Mesh& source, const std::string& source_spec,
                   const Mesh& destination, const std::string& destination_spec);

// The host of every rank of one_tensor's world, those of the destination after those of the source: what one_nic_a_host
// (weft/cluster/network.h) takes.
std::vector<int> hosts_side_by_side(const Mesh& source, const Mesh& destination);

}  // namespace weft
