#include "weft/base/thread_pool.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/base/error.h"

namespace weft {

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable begin, end;
  const std::function<void(int)>* work = nullptr;
  std::uint64_t round = 0;
  int running = 0;
  bool stopping = false;
  std::exception_ptr error;
  std::vector<std::thread> threads;

  void call(int thread) {
    try {
      (*work)(thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }

  void help(int thread) {
    std::uint64_t seen = 0;
    for (;;) {
      std::unique_lock lock(mutex);
      begin.wait(lock, [&] { return stopping || round != seen; });
      if (stopping) return;
      seen = round;
      lock.unlock();
      call(thread);
      lock.lock();
      if (--running == 0) end.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads), state_(std::make_unique<State>()) {
  if (num_threads < 1 || num_threads > 1024) bad_input("{} threads a rank; use 1 to 1024", num_threads);
  for (int i = 1; i < num_threads; ++i) state_->threads.emplace_back([this, i] { state_->help(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->begin.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

void ThreadPool::run(const std::function<void(int)>& work) {
  if (num_threads_ == 1) return work(0);
  {
    const std::lock_guard lock(state_->mutex);
    state_->work = &work;
    state_->running = num_threads_ - 1;
    state_->error = nullptr;
    ++state_->round;
  }
  state_->begin.notify_all();
  state_->call(0);
  std::unique_lock lock(state_->mutex);
  state_->end.wait(lock, [&] { return state_->running == 0; });
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
}

}  // namespace weft
