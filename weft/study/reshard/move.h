// Moving tensors for real: every strategy asked for is an op of the world; in every round the sources get new values,
// each op moves them in turn, and every element is checked at every destination rank.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/study/reshard/planned.h"
#include "weft/world/world.h"

namespace weft {

struct MoveOptions {
  ReshardOptions reshard = {};  // but for its strategy
  std::vector<Strategy> strategies{Strategy::automatic};
  int rounds = 5;
  bool again = false;  // the first strategy a second time in every round, for the A/A band
  bool spoil = false;  // tests only: one element on this rank is changed before it is checked
  std::function<void(int done, int of)> progress = {};
};

// One strategy, as planned and as measured.
struct StrategyMove {
  Strategy asked = Strategy::automatic;
  PlannedReshard planned;
  double time_us = 0;              // median over rounds of the slowest rank
  std::int64_t staging_bytes = 0;  // of the rank that has most: memory of the op beside the rank's shards
};

struct MoveResult {
  bool ok = true;  // false: another rank found a wrong element, and nothing else is told
  std::vector<StrategyMove> moves;
  double aa_band = 0;         // of the first strategy; 0 where it had no second turns
  std::int64_t elements = 0;  // checked in each turn, over all ranks
};

// Collective; the reshard is in ranks of the world. A rank that finds a wrong element throws an internal error that
// names it. The others return with `ok` false: they should end as ranks that did not fail, or whoever started them
// might stop the one that has something to say.
MoveResult move_tensors(World& world, const Reshard& reshard, const Network& network, const MoveOptions& options);

}  // namespace weft
