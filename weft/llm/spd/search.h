// The fastest choice of modes, one per block, whose measured loss stays under a bound. Pure: what a choice costs is
// asked of the caller.
//
// Times add up over blocks and are known; losses are measured for whole choices only, and the losses of single blocks
// that the caller gives serve to order moves. Three stages, each of which asks for measurements:
//   1  every block's modes are cut to the convex hull of loss over time saved, and the moves along all hulls are sorted
//      by loss per second saved: a path of choices, each with a little more saved. Bisection finds the last one under
//      the bound.
//   2  moves beyond it are tried one by one, in order; those that stay under the bound are kept.
//   3  swaps: one of the worst moves that were made for one of the best that were not, kept where more is saved, or as
//      much at a smaller loss; after each that is kept, stage 2 again.
// It stops when the budget of measurements is spent. Losses need not be monotone for the result to be under the bound:
// it was measured.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "weft/llm/model/block_mode.h"

namespace weft {

// One mode of one block, against that block synchronised in f32.
struct ModeChoice {
  BlockMode mode;
  double saved_s = 0;
  double loss = 0;  // expected, if the other blocks stay as they are
};

struct SearchInput {
  std::vector<std::vector<ModeChoice>> blocks;  // the modes that each may have, without sync
  double max_loss = 0.01;
  int most_measurements = 40;
};

using MeasuredLoss = std::function<double(std::span<const BlockMode>)>;

struct SearchResult {
  std::vector<BlockMode> modes;
  double loss = 0;     // measured; 0 where nothing is changed
  double saved_s = 0;  // by the times given
  int measurements = 0;
  std::vector<std::vector<BlockMode>> trail;  // from nothing changed to `modes`, one move more each: to go back along
};

SearchResult search_modes(const SearchInput& input, const MeasuredLoss& measure);

// The last choice of the trail whose loss by another measure is under the bound, by bisection: for text that was not
// searched on. Falls back to the first, nothing changed.
struct Confirmed {
  std::size_t at = 0;  // in the trail
  double loss = 0;
  int measurements = 0;
};
Confirmed confirm(std::span<const std::vector<BlockMode>> trail, double max_loss, const MeasuredLoss& measure);

}  // namespace weft
