// The one small thread of a process rank: shows that this process lives, and watches for the death of others.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "weft/transport/local/control.h"
#include "weft/transport/local/memory.h"

namespace weft {

inline constexpr std::chrono::milliseconds kHeartbeat{100};

void beat(const Control& control, int rank);
std::chrono::nanoseconds since_beat(const Control& control, int rank);

// Beats every kHeartbeat. A peer whose process ends although it has not left is reported in the control
// block, which wakes everyone. `launcher` has an event only when the launcher is dead (a socket hung up, a
// process ended): then this process is killed, as PR_SET_PDEATHSIG would.
class Heartbeat {
 public:
  Heartbeat(Control control, int rank, std::vector<std::shared_ptr<const Fd>> processes, pollfd launcher);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void run();
  void report(const std::vector<int>& dead) const;

  Control control_;
  int rank_;
  std::vector<std::shared_ptr<const Fd>> processes_;  // one pidfd per rank
  pollfd launcher_;
  Fd stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace weft
