// Runs one lane: makes the tile, adds the listed sources, finishes, stores to every target, signals. How a target is
// reached is up to its channel. Nothing here allocates (but for hooks) or locks, or waits unless a wire's staging is
// full. Threads share a runner, and each brings its own Workbench.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/exec/cpu/channel.h"
#include "weft/exec/cpu/lane_card.h"
#include "weft/exec/cpu/memory.h"
#include "weft/exec/cpu/tile_maker.h"
#include "weft/exec/cpu/workbench.h"
#include "weft/plan/program.h"

namespace weft {

class LaneRunner {
 public:
  LaneRunner(const Plan& plan, const Program& program, const Memory& memory, const Channels& channels);

  Workbench workbench(Detail detail) const;
  void begin(const Bindings* bindings, const Counts& counts, std::uint64_t run);
  void run(const Action& action, std::int64_t lane, Workbench& bench) const;

 private:
  void signal(const Action& action, const LaneCard& card, Workbench& bench) const;
  static std::int64_t bytes_of(std::int64_t rows, std::int64_t cols, const Action& action, const LaneCard& card,
                               Dtype target);
  bool is_written(const Action& action) const;
  void tell_of_written(const LaneCard& card, Workbench& bench) const;
  bool folds_first(const Action& action) const;
  bool goes_past_caches(const Action& action, const Place& target) const;
  void move(const Action& action, const LaneCard& card, Workbench& bench) const;
  GemmTarget made_in_place(const Action& action, const LaneCard& card, Workbench& bench) const;
  bool fits_in_place(const Action& action, const LaneCard& card) const;
  void make(const Action& action, const LaneCard& card, const GemmTarget& target, Workbench& bench) const;
  void finish(const Action& action, const LaneCard& card, float* values, std::int64_t ld) const;
  void store(const Action& action, const LaneCard& card, std::int64_t rows, std::int64_t cols,
             const std::array<std::int64_t, kMaxDims>& at, Workbench& bench) const;

  const Plan& plan_;
  const Program& program_;
  const Memory& memory_;
  const Channels& channels_;
  std::vector<TileMaker> makers_;
  LaneCards cards_;
  std::vector<std::int64_t> copied_bytes_;  // of each action, to judge whether its copies would fill the caches
  std::int64_t bench_floats_ = 0;
  const Bindings* bindings_ = nullptr;
  Counts counts_;
  bool all_rows_ = true;  // of this run: cards from before hold
  std::uint64_t run_ = 0;
};

}  // namespace weft
