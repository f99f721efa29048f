// What one rank holds of a reshard: memory for its source shards, filled with values that say where they belong, and
// the check of what arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/reshard/reshard.h"

namespace weft {

struct SourceShard {
  int transfer = 0, part = 0;
  Box box;  // in the destination tensor's coordinates
  std::unique_ptr<std::byte[]> memory;
};
struct DestinationShard {
  int transfer = 0;
  Box box;
};

class RankShards {
 public:
  RankShards(const Reshard& reshard, int rank);  // keeps a reference to the reshard

  void fill(std::uint64_t round);
  // A pointer for every input "src<t>.<p>", in the order of transfers and parts; null where the rank has no shard of
  // it.
  const std::vector<const void*>& inputs() const { return inputs_; }
  const std::vector<DestinationShard>& destinations() const { return destinations_; }

  // What is wrong with a destination shard, one sentence that names tensor, element, rank, expected and found; none:
  // every element is right.
  std::optional<std::string> check(const DestinationShard& shard, std::uint64_t round, const void* memory) const;

  std::int64_t destination_elements() const;

 private:
  const Reshard& reshard_;
  int rank_;
  std::vector<SourceShard> sources_;
  std::vector<const void*> inputs_;
  std::vector<DestinationShard> destinations_;
};

// Of a rank: its source and its destination shards.
struct ShardBytes {
  std::int64_t source = 0, destination = 0;
};
ShardBytes shard_bytes(const Reshard& reshard, int rank);

}  // namespace weft
