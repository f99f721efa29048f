// Where a test takes over the timing of the CPU executor. With hooks, stores and signals are handed over instead of
// done, and waits yield to the hooks instead of sleeping; the rest is the executor itself.
#pragma once

#include <cstdint>

#include "weft/kernel/rows/sum.h"

namespace weft {

class Hooks {
 public:
  virtual ~Hooks() = default;

  // A store of the lane that `rank` is running, to memory of `target`: to be done at any later time, but before any
  // signal of the same lane to the same target. `from` holds only during the call.
  virtual void put(int rank, int target, std::int64_t rows, std::int64_t cols, const ConstStrip& from,
                   const Strip& to) = 0;
  virtual void signal(int rank, int target, std::uint32_t* counter) = 0;
  virtual void end_lane(int rank) = 0;  // what follows belongs to another lane
  // What follows lands after all that the rank has sent to the same target (the drain rule of plan.h).
  virtual void begin_run(int rank) = 0;

  // Whether a trigger of `rank` may fire that sends to `target` by a link that holds triggers back (links.h). It must
  // be true where nothing of the rank is under way.
  virtual bool has_room(int /*rank*/, int /*target*/) { return true; }

  // Called before every lane and, again and again, while nothing that `rank` waits for has happened.
  virtual void pause(int rank, bool blocked) = 0;
};

}  // namespace weft
