// Moves a rank's ops while the rank computes. Layers are computed outside of ops, so nobody would look at links and
// counters meanwhile: here a thread does, while something is under way. It sleeps until an op says that time alone will
// have moved it on, and looks now and then for what other ranks have signalled. An op that waits moves every other op
// of its rank too, so until rest() all calls to ops of the rank are made under the pump's lock.
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

  // Held by the caller for every call to an op while any is watched. Rethrows what the thread has met.
  std::unique_lock<std::mutex> lock();
  // Under the lock: the op has been posted, and is looked at until it is ready. It must outlive the pump's thread.
  void watch(Op* op);
  // All that is watched has been waited for: until the next watch() the thread leaves ops alone.
  void rest();
  void stop();           // before the ops go
  std::int64_t looks();  // so far, by the thread

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Op*> watched_;
  std::exception_ptr failure_;
  std::int64_t next_look_ns_ = 0;  // while the thread sleeps
  std::int64_t looks_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weft::pipeline
