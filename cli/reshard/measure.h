// Moving tensors for real: every strategy asked for is an op; in every round the source gets new values, each op moves them
// in turn, and every element is checked at every destination rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/world/world.h"

#include "cli/reshard/planned.h"
#include "cli/reshard/spec.h"

namespace weft::cli {

struct MoveOptions {
  int rounds = 5;
  std::vector<Strategy> strategies{Strategy::automatic};
  bool again = false;  // the first strategy a second time in every round, for the A/A band
  bool spoil = false;  // tests only: one element is changed before it is checked
  std::function<void(int, int)> progress;
};

struct Moved {
  Strategy asked = Strategy::automatic;
  Planned planned;
  double time_us = 0;       // median over rounds of the slowest rank
  double predicted_us = 0;  // latency and messages included
  std::vector<double> rounds_us;
  std::int64_t staging_bytes = 0;  // of the rank that has most: memory of the op beside the rank's shards
};

struct Measured {
  std::vector<Moved> moved;   // one for each strategy
  double aa_band = 0;         // |a / b - 1| of the first strategy run twice; 0 where it was not
  std::int64_t elements = 0;  // checked in a round and op, over all ranks
};

// Collective. `spec` is in ranks of the world. Throws on the rank that finds a wrong element; `ok` is false on the others.
struct Outcome {
  bool ok = true;
  Measured measured;
};
Outcome move_tensors(World& world, const ReshardSpec& spec, const MoveOptions& options);

}  // namespace weft::cli
