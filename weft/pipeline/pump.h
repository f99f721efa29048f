// Moves a rank's ops while the rank computes. Layers are computed outside of ops, so nobody would look at links and
// counters meanwhile: here a thread does, every millisecond while something is under way. All calls to ops of the rank
// are made under the pump's lock, so that the thread and the rank never touch an op at once.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/world/op.h"

namespace weft::pipeline {

class Pump {
 public:
  Pump() = default;
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // Held by the caller for every call to an op. Rethrows what the thread has met.
  std::unique_lock<std::mutex> lock();
  // Under the lock: the op has been posted, and is looked at until it is ready. It must outlive the pump's thread.
  void watch(Op* op);
  void stop();  // before the ops go

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Op*> watched_;
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weft::pipeline
