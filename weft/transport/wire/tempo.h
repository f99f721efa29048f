// How long the wire's thread naps between two looks at its descriptor. While rows stream in, each packet (16 KB at 1
// Gbit/s, every 130 us) would wake it, and waking costs more than receiving: 1.7 ns a byte, both ends together, against
// 1.1 when 64 KB are received at a time (bench/wire_floor; 1.1 is what send() and recv() alone cost there).
//
// A nap delays what arrives in it, so it must not meet a sender that waits for an answer. A message alone, or less than
// a window of them, finds the thread awake at once. And where naps slow the stream down, because its sender waits for
// what this rank does with it, the rate falls behind the best seen, and the naps stop.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

class Tempo {
 public:
  using Clock = std::chrono::steady_clock;

  // To be called after each look at the descriptor. `bytes`: received so far, in all.
  std::chrono::nanoseconds nap(std::uint64_t bytes, Clock::time_point now);

 private:
  void start_window(std::uint64_t bytes, Clock::time_point now);

  Clock::time_point window_start_{}, last_news_{};
  std::uint64_t window_bytes_ = 0, last_bytes_ = 0;  // received when the window began; at the last call
  double rate_ = 0, best_rate_ = 0;                  // bytes a ns
  bool streaming_ = false;
};

}  // namespace weft
