// What one thread of a rank works with while it runs the lanes of one op: scratch memory, what the lane under way has
// for other hosts, and the thread's own record. Allocated once; no two threads share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/exec/cpu/lane_card.h"
#include "weft/exec/cpu/record.h"
#include "weft/exec/cpu/remote.h"
#include "weft/exec/sent.h"
#include "weft/kernel/rows/sum.h"

namespace weft {

struct Workbench {
  std::unique_ptr<float[], void (*)(void*)> tile{nullptr, nullptr};
  std::unique_ptr<std::byte[], void (*)(void*)> scratch{nullptr, nullptr};
  std::vector<ConstStrip> sources;        // of the strip under way
  std::vector<Place> places;              // of the lane under way, where it has no card from before
  Outbox outbox;                          // for ranks of other hosts
  std::vector<std::int64_t> unsignalled;  // bytes stored over each paced link that no signal has covered yet
  Sent sent;
  Recorder record;
  std::uint32_t run = 0;                // of the lane under way, for the record
  std::int64_t made = 0;                // when the tile of the lane under way was made, for the record
  std::int64_t held_until = INT64_MAX;  // when to look again at what was ready, but would only queue (channel.h)
};

}  // namespace weft
