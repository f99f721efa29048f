// Head grouping, for blocks that suffer most from dropping: which heads share a rank. A rank's MLP then sees only its
// own heads' outputs, so each rank gets heads that attend differently, and each group goes to the MLP shard that
// answers it most. Three steps, all pure: distances of heads, groups of largest distance, groups to shards. Permuting
// heads changes nothing under plain tensor parallelism. Query heads that share keys and values move together, as one
// unit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/llm/model/config.h"

namespace weft {

// One vector per unit; symmetric (units, units): the summed Euclidean distance of the unit's heads to the other's.
// `vectors` is (heads, width).
std::vector<double> unit_distances(std::int64_t heads, std::int64_t heads_per_unit, std::int64_t width,
                                   std::span<const float> vectors);

struct HeadGroups {
  std::vector<std::vector<int>> groups;  // (ranks): units of each, ascending
  double distance = 0;                   // summed over the pairs inside groups: as large as was found
  bool exact = false;                    // nothing larger exists
};

// Groups of the given sizes (their sum is the number of units), of largest summed distance inside groups: all
// partitions up to 8 units, beyond that greedy and then swaps of two units until none helps.
HeadGroups group_heads(std::span<const double> distances, std::span<const std::int64_t> sizes);

// values (n, n), row i and column j: the column of each row so that the sum is largest (Hungarian method, O(n^3)).
// Pairs that must not be have -infinity; throws bad_input where no assignment avoids them.
std::vector<int> largest_assignment(int n, std::span<const double> values);

// Units a rank holds, for every rank; empty where ranks cannot hold whole units (more ranks than key/value heads, or a
// boundary inside a unit): then heads stay where they are.
std::vector<std::int64_t> units_of_ranks(const ModelConfig& config, int ranks);

// A whole block (block_weights.h) with its units in a new order: new unit i is old unit order[i].
void permute_heads(const ModelConfig& config, std::span<const int> order, std::vector<float>* whole);

}  // namespace weft
