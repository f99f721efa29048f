// Holds the threads that a test starts meanwhile to one core. Under a seeded scheduler one rank runs at a time, so a
// second core only makes every turn a wake-up across cores: 50 s instead of 25 for ten thousand seeds.
#pragma once

#include <sched.h>

namespace weft::testing {

class OnOneCore {
 public:
  OnOneCore() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    known_ = sched_getaffinity(0, sizeof before_, &before_) == 0 && sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OnOneCore() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
  bool known_ = false;
};

}  // namespace weft::testing
