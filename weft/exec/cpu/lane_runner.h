// Runs one lane: makes the tile, adds the listed sources, finishes, stores to every target, signals. Nothing here
// allocates (but for hooks) or locks, or waits unless a wire's staging is full; threads share a runner and bring a
// Workbench each.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/exec/cpu/lane_card.h"
#include "weft/exec/cpu/memory.h"
#include "weft/exec/cpu/record.h"
#include "weft/exec/cpu/remote.h"
#include "weft/exec/cpu/tile_maker.h"
#include "weft/plan/program.h"

namespace weft {

class Hooks;
class Links;
class Signals;

// What one rank has sent, counted as it happens.
struct Sent {
  std::int64_t bytes = 0;    // stored to other ranks, counted as they travel (plan/traffic.h)
  std::int64_t signals = 0;  // raised on other ranks
};

// A thread's own scratch.
struct Workbench {
  std::unique_ptr<float[], void (*)(void*)> tile{nullptr, nullptr};
  std::unique_ptr<std::byte[], void (*)(void*)> scratch{nullptr, nullptr};
  std::vector<ConstStrip> sources, parts;  // of the strip under way, and of the piece of it that is being staged
  std::vector<Place> places;               // of the lane under way, where it has no card from before
  Outbox outbox;                           // for ranks of other hosts
  Sent sent;
  Recorder record;
  std::int64_t made = 0;                // when the tile of the lane under way was made, for the record
  std::int64_t held_until = INT64_MAX;  // when to look again at what was ready, but would only queue (links.h)
};

class LaneRunner {
 public:
  // Who does what is said there: the signals, and instead of them, where not null, the wire to other hosts, paced links
  // or a test's hooks.
  struct Ways {
    Signals* signals = nullptr;
    const Remote* remote = nullptr;
    Links* links = nullptr;
    Hooks* hooks = nullptr;
  };
  LaneRunner(const Plan& plan, const Program& program, const Memory& memory, const Ways& ways);

  Workbench workbench(Detail detail) const;
  void begin(const Bindings* bindings, const Counts& counts, std::uint32_t run);
  void run(const Action& action, std::int64_t lane, Workbench& bench) const;

 private:
  void signal(const Action& action, const LaneCard& card, Workbench& bench) const;
  static std::int64_t bytes_of(std::int64_t rows, std::int64_t cols, const Action& action, const LaneCard& card,
                               Dtype target);
  std::int64_t bytes_to(int rank, const Action& action, const LaneCard& card) const;
  bool is_written(const Action& action) const;
  bool folds_first(const Action& action) const;
  bool goes_past_caches(const Action& action, const Place& target) const;
  void move(const Action& action, const LaneCard& card, Workbench& bench) const;
  GemmTarget made_in_place(const Action& action, const LaneCard& card, Workbench& bench) const;
  bool is_remote(int rank) const { return remote_ != nullptr && remote_->is_remote(rank); }
  void make(const Action& action, const LaneCard& card, const GemmTarget& target, Workbench& bench) const;
  void finish(const Action& action, const LaneCard& card, float* values, std::int64_t ld) const;
  void store(const Action& action, const LaneCard& card, std::int64_t rows, std::int64_t cols,
             const std::array<std::int64_t, kMaxDims>& at, Workbench& bench) const;
  void send(int rank, std::int64_t rows, std::int64_t cols, const Strip& to, Workbench& bench) const;

  const Plan& plan_;
  const Program& program_;
  const Memory& memory_;
  Signals* signals_;
  const Remote* remote_;
  Links* links_;
  Hooks* hooks_;
  std::vector<TileMaker> makers_;
  LaneCards cards_;
  std::vector<std::int64_t> copied_bytes_;  // of each action, to judge whether its copies would fill the caches
  std::int64_t bench_floats_ = 0;
  const Bindings* bindings_ = nullptr;
  Counts counts_;
  bool all_rows_ = true;  // of this run: cards from before hold
  std::uint32_t run_ = 0;
};

}  // namespace weft
