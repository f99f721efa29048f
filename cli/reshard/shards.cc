#include "cli/reshard/shards.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/index.h"

#include "cli/reshard/values.h"

namespace weft::cli {
namespace {

// The box of a tensor that a rank of the world holds; none where it has no part in the placement, or nothing of the tensor.
std::optional<Box> box_of(const Reshard& reshard, const ShardedTensor& tensor, int rank) {
  const Placement& placement = reshard.placements[at(tensor.placement)];
  const auto found = std::find(placement.ranks.begin(), placement.ranks.end(), rank);
  if (found == placement.ranks.end()) return {};
  const Box box =
      shard_box(tensor.shape, tensor.sharding, placement.mesh, static_cast<int>(found - placement.ranks.begin()));
  return box.empty() ? std::nullopt : std::optional(box);
}

Box shifted(Box box, const std::vector<std::int64_t>& at) {
  for (std::size_t d = 0; d < at.size(); ++d) box.lo[d] += at[d], box.hi[d] += at[d];
  return box;
}

std::int64_t bytes_of(const Box& box, Dtype dtype) { return box.volume() * static_cast<std::int64_t>(size_of(dtype)); }

}  // namespace

Shards::Shards(const Reshard& reshard, int rank) : reshard_(reshard), rank_(rank) {
  for (int t = 0; t < int_size(reshard.transfers); ++t) {
    const Transfer& transfer = reshard.transfers[at(t)];
    for (int p = 0; p < int_size(transfer.parts); ++p) {
      const Part& part = transfer.parts[at(p)];
      inputs_.push_back(nullptr);
      const auto box = box_of(reshard, part.tensor, rank);
      if (!box) continue;
      const auto bytes = num(bytes_of(*box, part.tensor.dtype));
      sources_.push_back({t, p, shifted(*box, part.at), std::make_unique<std::byte[]>(bytes)});
      inputs_.back() = sources_.back().memory.get();
    }
    if (const auto box = box_of(reshard, transfer.destination, rank)) destinations_.push_back({t, *box});
  }
}

void Shards::fill(int round) {
  for (const SourceShard& shard : sources_) {
    const Transfer& transfer = reshard_.transfers[at(shard.transfer)];
    fill_values(values_of(transfer, shard.transfer, round), shard.box, transfer.parts[at(shard.part)].tensor.dtype,
                shard.memory.get());
  }
}

std::optional<std::string> Shards::check(const DestinationShard& shard, int round, const void* memory) const {
  const Transfer& transfer = reshard_.transfers[at(shard.transfer)];
  std::int64_t wrong = 0;
  const auto bad =
      check_values(values_of(transfer, shard.transfer, round), shard.box, transfer.destination.dtype, memory, &wrong);
  if (!bad) return {};
  return fmt::format(
      "tensor \"{}\" is wrong on rank {}: element [{}] is {}, expected {}; {} of {} elements of its shard differ",
      transfer.destination.name, rank_, fmt::join(bad->element, ", "), bad->found, bad->expected, wrong,
      shard.box.volume());
}

std::int64_t Shards::destination_bytes() const {
  std::int64_t bytes = 0;
  for (const DestinationShard& shard : destinations_)
    bytes += bytes_of(shard.box, reshard_.transfers[at(shard.transfer)].destination.dtype);
  return bytes;
}

std::int64_t Shards::destination_elements() const {
  std::int64_t elements = 0;
  for (const DestinationShard& shard : destinations_) elements += shard.box.volume();
  return elements;
}

ShardBytes shard_bytes(const Reshard& reshard, int rank) {
  ShardBytes bytes;
  for (const Transfer& transfer : reshard.transfers) {
    for (const Part& part : transfer.parts)
      if (const auto box = box_of(reshard, part.tensor, rank)) bytes.source += bytes_of(*box, part.tensor.dtype);
    if (const auto box = box_of(reshard, transfer.destination, rank))
      bytes.destination += bytes_of(*box, transfer.destination.dtype);
  }
  return bytes;
}

}  // namespace weft::cli
