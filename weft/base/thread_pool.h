// The threads of one rank: the caller and its helpers, started once. Between calls helpers look for the next one for a
// moment, then sleep: calls that follow one another find them awake.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace weft {

class ThreadPool {
 public:
  // The caller counts as one; throws bad_input below 1 or above 1024. Helpers look for kSpin before they sleep, or not
  // at all where there are more threads than processors.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(30);

  int size() const { return num_threads_; }

  // How long helpers look for work, and the caller for their end, before they sleep. 0 where others need the
  // processors: a thread that spins may take time from the one it waits for. Not during run().
  void set_spin(std::chrono::nanoseconds spin);

  // Calls work(0) here and work(1 .. size - 1) on the helpers; returns when all have returned. The first exception
  // is rethrown here. Not reentrant. With one thread it is a plain call.
  void run(const std::function<void(int)>& work);

 private:
  struct State;
  int num_threads_;
  std::unique_ptr<State> state_;
};

// Calls work(list, i) for every i < counts[list], list after list; threads take the next one as they come free.
void deal(ThreadPool& threads, std::span<const std::int64_t> counts,
          const std::function<void(std::size_t list, std::int64_t i)>& work);

}  // namespace weft
