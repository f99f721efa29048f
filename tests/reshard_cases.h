// Random reshards with values that tell every element of every run apart, and checks of what arrived. Everything comes
// from a seed, so that every process makes the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/reshard/build/build.h"

namespace weft::testing {

struct ReshardCase {
  Reshard reshard;
  std::vector<int> host_of;  // per rank
  std::string name;
};

// Scalars and 1 to 3 dimensions, sizes that do not divide, meshes that overlap, replication on both sides, tensors
// fused from three, all dtypes and the changes between them. `num_ranks` 0: 2 to 9.
ReshardCase random_reshard(std::uint64_t seed, int num_ranks = 0);

Network network_of(const ReshardCase& c);

// Any tree is a schedule: boxes cut at random, roots and parents chosen at random among those that may be.
Schedule random_schedule(const std::vector<Task>& tasks, std::uint64_t seed);

// The bytes of one rank's input buffers, in the order of the plan's.
std::vector<std::vector<std::byte>> sources_of(const Reshard& reshard, int rank, int run);

// What destination t of a rank must hold: the bytes of its shard.
std::vector<std::byte> wanted(const Reshard& reshard, std::size_t transfer, int rank, int run);

std::vector<const void*> pointers(const std::vector<std::vector<std::byte>>& buffers);

}  // namespace weft::testing
