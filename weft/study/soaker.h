// What is left of a core beside something that mostly waits: a thread of the lowest priority counts how often it can
// do a small piece of arithmetic. Time of the kernel's interrupts, which no process is charged with, is time it does
// not get.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace weft {

class Soaker {
 public:
  // Only where this process has one core and no other, as on a host that is pinned to it. With more, the soaker would
  // go to the other one; with less, what it takes of a quota would be missing elsewhere.
  static bool possible();

  Soaker();  // measures, for some milliseconds, how fast it is alone
  ~Soaker();
  Soaker(const Soaker&) = delete;
  Soaker& operator=(const Soaker&) = delete;

  void start();
  double stop();  // nanoseconds of the core that it got since

 private:
  void soak();

  std::atomic<bool> on_{false}, end_{false};
  std::atomic<std::uint64_t> pieces_{0};
  std::uint64_t before_ = 0;
  double piece_ns_ = 0;
  std::thread thread_;
};

}  // namespace weft
