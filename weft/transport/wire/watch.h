// The wire's own thread: asleep on a descriptor, it calls serve() when that becomes readable, so that peers are served
// while the rank computes. While anyone attends, that is, moves data in a loop of his own, the descriptor is taken out
// of what the thread sleeps on: otherwise every packet would wake it beside him.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "weft/transport/local/memory.h"

namespace weft {

class Watch {
 public:
  // `descriptor` outlives the watch. serve() must leave it unreadable unless there is more to serve, and never throw;
  // any thread may call it. pause(), which only the watch's own thread calls after it has served, says how long to nap
  // before looking at the descriptor again.
  Watch(int descriptor, std::function<void()> serve, std::function<std::chrono::nanoseconds()> pause);
  ~Watch();

  // As in wire.h.
  void attend();
  void leave();
  void rest();

 private:
  void run();
  bool nap(std::chrono::nanoseconds time);  // false where the watch is to end
  void set_interest(bool interested);
  void linger();  // the thread takes over soon, unless somebody attends by then
  void set_timer(long ns);
  void take_over();
  void on_timer();

  int descriptor_;
  std::function<void()> serve_;
  std::function<std::chrono::nanoseconds()> pause_;
  Fd epoll_, stop_, timer_;
  std::mutex mutex_;
  int attending_ = 0;
  bool interested_ = true, lingering_ = false;
  bool came_back_ = false;  // somebody, since the timer was set
  std::thread thread_;
};

}  // namespace weft
