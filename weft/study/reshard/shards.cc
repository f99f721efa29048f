#include "weft/study/reshard/shards.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/index.h"
#include "weft/plan/price/traffic.h"
#include "weft/reshard/build/shards.h"
#include "weft/study/reshard/values.h"

namespace weft {
namespace {

using resharding::shard_of;

}  // namespace

RankShards::RankShards(const Reshard& reshard, int rank) : reshard_(reshard), rank_(rank) {
  for (int t = 0; t < int_size(reshard.transfers); ++t) {
    const Transfer& transfer = reshard.transfers[at(t)];
    for (int p = 0; p < int_size(transfer.parts); ++p) {
      const Part& part = transfer.parts[at(p)];
      inputs_.push_back(nullptr);
      const Box box = shard_of(reshard, part.tensor, part.at, rank);
      if (box.empty()) continue;
      sources_.push_back({t, p, box, std::make_unique<std::byte[]>(num(bytes_of(box, part.tensor.dtype)))});
      inputs_.back() = sources_.back().memory.get();
    }
    const Box box = shard_of(reshard, transfer.destination, {}, rank);
    if (!box.empty()) destinations_.push_back({t, box});
  }
}

void RankShards::fill(std::uint64_t round) {
  for (const SourceShard& shard : sources_) {
    const Transfer& transfer = reshard_.transfers[at(shard.transfer)];
    fill_values(values_of(transfer, shard.transfer, round), shard.box, transfer.parts[at(shard.part)].tensor.dtype,
                shard.memory.get());
  }
}

std::optional<std::string> RankShards::check(const DestinationShard& shard, std::uint64_t round,
                                             const void* memory) const {
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

std::int64_t RankShards::destination_elements() const {
  std::int64_t elements = 0;
  for (const DestinationShard& shard : destinations_) elements += shard.box.volume();
  return elements;
}

ShardBytes shard_bytes(const Reshard& reshard, int rank) {
  ShardBytes bytes;
  for (const Transfer& transfer : reshard.transfers) {
    for (const Part& part : transfer.parts)
      bytes.source += bytes_of(shard_of(reshard, part.tensor, part.at, rank), part.tensor.dtype);
    bytes.destination += bytes_of(shard_of(reshard, transfer.destination, {}, rank), transfer.destination.dtype);
  }
  return bytes;
}

}  // namespace weft
