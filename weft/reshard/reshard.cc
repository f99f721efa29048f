// What a reshard means before anyone chooses: the checks of a description, and its unit tasks. A task is the overlap of
// a source tile and a destination tile; an index over the source tiles of a transfer finds them in about log n each.
#include "weft/reshard/reshard.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/mesh/regions.h"
#include "weft/plan/price/traffic.h"

namespace weft {
namespace {

void check_placement(const Placement& placement, int num_ranks) {
  if (placement.ranks.size() != at(placement.mesh.size()))
    bad_input("placement \"{}\" has {} ranks for a mesh of {} ({}); name one for each place", placement.name,
              placement.ranks.size(), placement.mesh.size(), to_string(placement.mesh));
  std::vector<char> used(at(num_ranks));
  for (const int rank : placement.ranks) {
    if (rank < 0 || rank >= num_ranks)
      bad_input("placement \"{}\" names rank {}, but the world has {}; use 0 to {}", placement.name, rank, num_ranks,
                num_ranks - 1);
    if (used[at(rank)]++) bad_input("placement \"{}\" names rank {} twice; a rank has one place", placement.name, rank);
  }
}

void check_tensor(const ShardedTensor& tensor, const Reshard& reshard) {
  if (tensor.placement < 0 || at(tensor.placement) >= reshard.placements.size())
    bad_input("\"{}\" is on placement {}, but there are {}; number them from 0", tensor.name, tensor.placement,
              reshard.placements.size());
  for (std::size_t d = 0; d < tensor.shape.size(); ++d)
    if (tensor.shape[d] < 1)
      bad_input("dim {} of \"{}\" is {}; a tensor that moves has at least 1 element along every dim", d, tensor.name,
                tensor.shape[d]);
  if (!tensor.sharding.partial.empty())
    bad_input("\"{}\" has partial sums along axis \"{}\"; add them up before resharding (reduce_scatter or all_reduce)",
              tensor.name, tensor.sharding.partial.front());
  check_sharding(tensor.shape, tensor.sharding, reshard.placements[at(tensor.placement)].mesh,
                 {.name = tensor.name, .uneven = true});
}

bool converts(Dtype from, Dtype to) {
  if (from == Dtype::int8 || to == Dtype::int8) return false;  // a format of sums on the wire
  const auto is_float = [](Dtype dtype) { return dtype == Dtype::f32 || dtype == Dtype::bf16; };
  return from == to || (is_float(from) && is_float(to));
}

Box shifted(Box box, const std::vector<std::int64_t>& by) {
  for (int d = 0; d < box.dims; ++d) {
    box.lo[d] += by[at(d)];
    box.hi[d] += by[at(d)];
  }
  return box;
}

void check_part(const Part& part, const ShardedTensor& destination) {
  const ShardedTensor& tensor = part.tensor;
  const std::size_t dims = destination.shape.size();
  if (tensor.shape.size() != dims || part.at.size() != dims)
    bad_input("\"{}\" has {} dims and is put at {} coordinates, but \"{}\" has {} dims; give as many of each",
              tensor.name, tensor.shape.size(), part.at.size(), destination.name, dims);
  if (!converts(tensor.dtype, destination.dtype))
    bad_input(
        "\"{}\" is {} and \"{}\" is {}; only f32 and bf16 convert into each other, other dtypes must be equal, and "
        "none int8",
        tensor.name, to_string(tensor.dtype), destination.name, to_string(destination.dtype));
  const Box box = shifted(whole(tensor.shape), part.at);
  if (!contains(whole(destination.shape), box))
    bad_input("\"{}\" fills {} of \"{}\", which is only {}; move or shrink it", tensor.name, to_string(box),
              destination.name, to_string(whole(destination.shape)));
}

void check_transfer(const Transfer& transfer, const Reshard& reshard) {
  const ShardedTensor& destination = transfer.destination;
  check_tensor(destination, reshard);
  if (transfer.parts.empty()) bad_input("\"{}\" is made of no tensor; name at least one part", destination.name);
  std::vector<Box> boxes;
  for (const Part& part : transfer.parts) {
    check_tensor(part.tensor, reshard);
    check_part(part, destination);
    boxes.push_back(shifted(whole(part.tensor.shape), part.at));
  }
  if (const auto pair = first_overlap(boxes))
    bad_input("parts \"{}\" and \"{}\" of \"{}\" overlap in {}; put them side by side",
              transfer.parts[at(pair->first)].tensor.name, transfer.parts[at(pair->second)].tensor.name,
              destination.name, to_string(intersect(boxes[at(pair->first)], boxes[at(pair->second)])));
  if (const auto gap = first_gap(boxes, whole(destination.shape)))
    bad_input("no part of \"{}\" fills {}; add one or shrink the destination", destination.name, to_string(*gap));
}

std::vector<int> world_ranks(const std::vector<int>& places, const Placement& placement) {
  std::vector<int> ranks;
  ranks.reserve(places.size());
  for (const int place : places) ranks.push_back(placement.ranks[at(place)]);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

struct SourceTile {
  int part;
  Box box;  // in the destination's coordinates
  std::vector<int> ranks;
};

std::vector<SourceTile> source_tiles(const Transfer& transfer, const Reshard& reshard) {
  std::vector<SourceTile> tiles;
  for (int p = 0; p < int_size(transfer.parts); ++p) {
    const ShardedTensor& tensor = transfer.parts[at(p)].tensor;
    const Placement& placement = reshard.placements[at(tensor.placement)];
    for (const Shard& shard : owners(tensor.shape, tensor.sharding, placement.mesh))
      tiles.push_back({p, shifted(shard.box, transfer.parts[at(p)].at), world_ranks(shard.ranks, placement)});
  }
  return tiles;
}

void append_tasks(const Reshard& reshard, int index, std::vector<Task>& tasks) {
  const Transfer& transfer = reshard.transfers[at(index)];
  const ShardedTensor& destination = transfer.destination;
  const Placement& placement = reshard.placements[at(destination.placement)];
  const std::vector<SourceTile> sources = source_tiles(transfer, reshard);
  std::vector<Box> boxes;
  for (const SourceTile& source : sources) boxes.push_back(source.box);
  const BoxIndex by_box(boxes);
  std::vector<int> found;
  for (const Shard& shard : owners(destination.shape, destination.sharding, placement.mesh)) {
    const std::vector<int> receivers = world_ranks(shard.ranks, placement);
    found.clear();
    by_box.overlapping(shard.box, found);
    std::sort(found.begin(), found.end());
    for (const int i : found) {
      const SourceTile& source = sources[at(i)];
      const Dtype dtype = travels_as(transfer.parts[at(source.part)].tensor.dtype, destination.dtype);
      Task task{index, source.part, intersect(shard.box, source.box), 0, source.ranks, receivers};
      task.bytes = task.box.volume() * size_of(dtype);
      tasks.push_back(std::move(task));
    }
  }
}

}  // namespace

void check_reshard(const Reshard& reshard) {
  if (reshard.num_ranks < 1 || reshard.num_ranks > kMaxRanks)
    bad_input("a world of {} ranks; use 1 to {}", reshard.num_ranks, kMaxRanks);
  for (const Placement& placement : reshard.placements) check_placement(placement, reshard.num_ranks);
  for (const Transfer& transfer : reshard.transfers) check_transfer(transfer, reshard);
}

std::int64_t wire_bytes(const Transfer& transfer) {
  std::int64_t bytes = 0;
  for (const Part& part : transfer.parts) {
    const Dtype dtype = travels_as(part.tensor.dtype, transfer.destination.dtype);
    bytes += whole(part.tensor.shape).volume() * size_of(dtype);
  }
  return bytes;
}

std::vector<Task> tasks(const Reshard& reshard) {
  check_reshard(reshard);
  std::vector<Task> result;
  for (int i = 0; i < int_size(reshard.transfers); ++i) append_tasks(reshard, i, result);
  return result;
}

Reshard one_tensor(const Shape& shape, Dtype dtype, const Mesh& source, const std::string& source_spec,
                   const Mesh& destination, const std::string& destination_spec) {
  const auto place = [](const char* name, const Mesh& mesh, int first) {
    Placement placement{name, mesh, {}};
    for (int i = 0; i < mesh.size(); ++i) placement.ranks.push_back(first + i);
    return placement;
  };
  Reshard reshard;
  reshard.placements = {place("source", source, 0), place("destination", destination, source.size())};
  reshard.num_ranks = source.size() + destination.size();
  const ShardedTensor from{"source", shape, dtype, 0, parse_sharding(source_spec, source)};
  const ShardedTensor to{"destination", shape, dtype, 1, parse_sharding(destination_spec, destination)};
  reshard.transfers = {{{{from, std::vector<std::int64_t>(shape.size(), 0)}}, to}};
  check_reshard(reshard);
  return reshard;
}

std::vector<int> hosts_side_by_side(const Mesh& source, const Mesh& destination) {
  std::vector<int> host_of = source.hosts();
  for (const int host : destination.hosts()) host_of.push_back(source.num_hosts() + host);
  return host_of;
}

}  // namespace weft
