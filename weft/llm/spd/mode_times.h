// What modes of blocks are chosen by: the time of a forward of a prompt's rows through all blocks, on the world's own
// link.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/llm/model/block_mode.h"

namespace weft {

class Model;
class World;

struct ModeTimesOptions {
  std::int64_t rows = 512;  // of the forward; the model's length at most
  int rounds = 5;           // in which the choices take turns, behind one that warms up
};

// Median seconds of each choice of modes. Collective; rank 0's figures on all ranks, since all must decide the same by
// them.
std::vector<double> forward_seconds(World& world, const Model& model, const ModeTimesOptions& options,
                                    std::span<const Modes> choices);

// A forward with all blocks in one mode.
struct ModeTime {
  BlockMode mode;
  double forward_s = 0;
};

// The same for all blocks in sync, which comes first, and for all blocks in each of `modes`.
std::vector<ModeTime> measure_modes(World& world, const Model& model, const ModeTimesOptions& options,
                                    std::span<const BlockMode> modes);

}  // namespace weft
