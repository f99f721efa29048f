// The threads of one rank: the caller and its helpers, started once and parked between calls.
#pragma once

#include <functional>
#include <memory>

namespace weft {

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);  // the caller counts as one; throws bad_input below 1 or above 1024
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return num_threads_; }

  // Calls work(0) here and work(1 .. size - 1) on the helpers; returns when all have returned. The first exception
  // is rethrown here. Not reentrant. With one thread it is a plain call.
  void run(const std::function<void(int)>& work);

 private:
  struct State;
  int num_threads_;
  std::unique_ptr<State> state_;
};

}  // namespace weft
