// How ranks start together and learn each other's times. One small all_gather op carries whole numbers between them;
// CLOCK_MONOTONIC is the same in all processes of a machine, so the ranks agree on a moment and each waits for it
// alone. Between machines the clocks are set against rank 0's: the shortest of some messages there and back tells how
// far apart they are, to half the difference of the two ways.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/world/op.h"
#include "weft/world/world.h"

namespace weft {

class CommonClock {
 public:
  static constexpr int kValues = 4;  // whole numbers from 0 to 2^62 that every rank tells the others in a meeting

  explicit CommonClock(World& world);  // collective

  static std::int64_t now_ns();
  std::int64_t cpu_ns() const;  // of this rank: its process, or its thread where ranks are threads

  // Collective: every rank learns all ranks' values; value i of rank r is at result[r * kValues + i].
  std::span<const std::int64_t> tell(std::span<const std::int64_t> values);
  std::int64_t sum_of_ranks(std::int64_t mine);    // collective
  std::int64_t worst_of_ranks(std::int64_t mine);  // collective: the largest
  // Collective: returns at the same moment on every rank, which it gives as this rank's clock shows it.
  std::int64_t start_together();

 private:
  bool one_machine();
  void compare_clocks();

  World& world_;
  bool crowded_;
  std::int64_t ahead_ns_ = 0;  // of this rank's clock against that of rank 0
  Op gather_;
  std::vector<float> mine_;
  std::vector<std::int64_t> all_;
};

}  // namespace weft
