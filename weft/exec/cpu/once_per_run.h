// Something that all tiles of a run share and the first to need it makes. No thread waits for another: one that finds
// it half made does without.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

class OncePerRun {
 public:
  enum class Turn { made, mine, of_another };

  // `mine`: the caller makes it, then calls made(). What its maker wrote is seen by whoever is told `made`.
  Turn look(std::uint64_t run) {
    const std::uint64_t making = 2 * (run + 1);
    std::uint64_t seen = state_.load(std::memory_order_acquire);  // pairs with the release below
    if (seen == making + 1) return Turn::made;
    if (seen == making || !state_.compare_exchange_strong(seen, making, std::memory_order_relaxed))
      return Turn::of_another;
    return Turn::mine;
  }
  void made(std::uint64_t run) { state_.store(2 * (run + 1) + 1, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> state_{0};  // 2 * (run + 1): being made; one more: made
};

}  // namespace weft
