// The one path from this rank to another rank of its op. A lane stages, stores and signals through it, and does not ask
// where the target is. Which kind it is, is chosen once, when the op is made:
//   memory  a rank of this host, this rank among them: stores go to the target's memory, signals to its counters
//   paced   the same, but a signal travels by a link with a rate and a latency (links.h)
//   wire    a rank of another host: rows are staged and sent, and the last of them takes the signals along (remote.h)
//   hooked  a test decides when stores and signals land (hooks.h)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/exec/cpu/memory.h"
#include "weft/kernel/rows/sum.h"
#include "weft/transport/local/pace.h"

namespace weft {

class Hooks;
class Links;
class Remote;
class Signals;
struct Program;
struct Workbench;

// What a lane stores in one place of the target: the sum of its sources, in their order.
struct LaneStore {
  std::int64_t rows = 0, cols = 0;
  std::span<const ConstStrip> sources;
  Strip to;
  std::int64_t bytes = 0;    // as they travel
  bool past_caches = false;  // one source, too large to be of use in the caches
};

class Channel {
 public:
  struct Traits {
    bool in_memory = true;                 // what is written at an address of the target is there
    std::int64_t most_staged = INT64_MAX;  // the largest tile, in bytes, that stage() takes; 0: none
    bool may_fill = false;                 // room_at() may name a time
  };
  explicit Channel(const Traits& traits) : traits_(traits) {}
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  bool in_memory() const { return traits_.in_memory; }
  std::int64_t most_staged() const { return traits_.most_staged; }
  bool may_fill() const { return traits_.may_fill; }

  // Where a tile of at most most_staged() bytes, of the type of `place`, may be made that belongs there: in `place`, or
  // in memory that is sent there when the lane ends.
  virtual Strip stage(std::int64_t rows, std::int64_t cols, const Strip& place, Workbench& bench) = 0;
  virtual void store(const LaneStore& store, Workbench& bench) = 0;
  // Raises a counter of the target, after all that this lane has stored there.
  virtual void signal(std::int64_t counter, Workbench& bench) = 0;
  // What a trigger would store now might only queue. When there will be room, or Transit::kNothing: there is. Time
  // alone makes room, or what is under way already, never what the trigger itself would send.
  virtual std::int64_t room_at(bool /*between_tiles*/) const { return Transit::kNothing; }

 private:
  const Traits traits_;
};

// One op's channels from one rank to every rank of the plan.
class Channels {
 public:
  // What the op has: signals, and, where not null, a wire to other hosts, paced links, or a test's hooks.
  struct Ways {
    Signals* signals = nullptr;
    const Remote* remote = nullptr;
    Links* links = nullptr;
    Hooks* hooks = nullptr;
  };
  Channels(const Memory& memory, const Program& program, const Ways& ways);

  Channel& to(int rank) const { return *to_[static_cast<std::size_t>(rank)]; }
  void equip(Workbench* bench) const;
  // The lane under way has stored and signalled all it had.
  void end_lane(Workbench& bench) const;

 private:
  int rank_;
  const Remote* remote_;
  Links* links_;
  Hooks* hooks_;
  std::vector<std::unique_ptr<Channel>> to_;
};

}  // namespace weft
