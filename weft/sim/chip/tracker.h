// The tracker at the memory controller: which tiles have seen some of their updates but not all. A tile takes one entry
// for each of its wavefronts, in the set that its number picks. A tile whose set is full is tracked in memory instead:
// correct, but each of its updates reads and writes `spill_bytes` there for every wavefront.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/sim/chip/chip.h"

namespace weft::sim {

class Tracker {
 public:
  Tracker(const Chip& chip, std::size_t num_tiles)
      : wavefronts_(chip.wavefronts),
        ways_(std::max(1, chip.tracker_ways)),
        sets_(static_cast<std::size_t>(std::max(1, chip.tracker_entries / ways_)), 0),
        state_(num_tiles, State::none) {}

  // An update of the tile has been done: true where it is tracked in memory.
  bool update(std::int32_t tile) {
    State& state = state_[static_cast<std::size_t>(tile)];
    if (state == State::none) {
      state = fits(tile) ? State::entry : State::memory;
      ++live_;
      peak_ = std::max(peak_, live_);
      if (state == State::entry) occupy(tile, 1);
    }
    if (state != State::memory) return false;
    ++spills_;
    return true;
  }

  // The tile's last update has been counted: its entry is free.
  void release(std::int32_t tile) {
    State& state = state_[static_cast<std::size_t>(tile)];
    if (state == State::none) return;
    if (state == State::entry) occupy(tile, -1);
    --live_;
    state = State::none;
  }

  std::int64_t peak_entries() const { return peak_ * wavefronts_; }  // live at once, in memory or not
  std::int64_t spills() const { return spills_; }

 private:
  enum class State : std::uint8_t { none, entry, memory };

  std::size_t set_of(std::int32_t tile, int wavefront) const {
    return static_cast<std::size_t>(static_cast<std::int64_t>(tile) * wavefronts_ + wavefront) % sets_.size();
  }
  bool fits(std::int32_t tile) const {
    for (int w = 0; w < wavefronts_; ++w)
      if (sets_[set_of(tile, w)] >= ways_) return false;
    return true;
  }
  void occupy(std::int32_t tile, int sign) {
    for (int w = 0; w < wavefronts_; ++w) sets_[set_of(tile, w)] += sign;
  }

  int wavefronts_, ways_;
  std::vector<int> sets_;  // entries in use
  std::vector<State> state_;
  std::int64_t live_ = 0, peak_ = 0, spills_ = 0;
};

}  // namespace weft::sim
