#include "weft/base/thread_pool.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/pause.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Looks until `there` or the time is over; the clock is read every 16 looks, to cost little beside them.
template <class There>
bool spin_until(std::chrono::nanoseconds spin, There&& there) {
  if (there()) return true;
  if (spin.count() == 0) return false;
  for (const auto stop = Clock::now() + spin; Clock::now() < stop;)
    for (int look = 0; look < 16; ++look) {
      cpu_pause();
      if (there()) return true;
    }
  return false;
}

// A place to sleep until something written elsewhere is there. Whoever writes it does so with seq_cst and then calls
// wake(); a sleeper announces itself with seq_cst and looks once more: one of the two sees the other.
struct Bed {
  std::mutex mutex;
  std::condition_variable bell;
  std::atomic<int> sleepers{0};

  template <class There>
  void sleep_until(There&& there) {
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    bell.wait(lock, there);
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }

  void wake() {
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    { const std::lock_guard lock(mutex); }  // a sleeper that has looked is waiting by now
    bell.notify_all();
  }
};

}  // namespace

struct ThreadPool::State {
  // What the caller writes for helpers, and what helpers write for the caller, on lines of their own.
  alignas(64) std::atomic<std::uint64_t> round{0};
  const std::function<void(int)>* work = nullptr;
  std::chrono::nanoseconds spin{0};
  bool stopping = false;
  alignas(64) std::atomic<int> running{0};
  alignas(64) Bed helpers;
  Bed caller;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;

  void call(int thread) {
    try {
      (*work)(thread);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  // Everything else the caller wrote is there once the round is.
  void begin_round() {
    round.fetch_add(1, std::memory_order_seq_cst);
    helpers.wake();
  }

  void help(int thread) {
    std::chrono::nanoseconds patience{
        0};  // not before the first round: programs start threads long before they use them
    for (std::uint64_t seen = 0;; ++seen) {
      const auto begun = [&] { return round.load(std::memory_order_seq_cst) != seen; };
      if (!spin_until(patience, begun)) helpers.sleep_until(begun);
      if (stopping) return;
      patience = spin;
      call(thread);
      if (running.fetch_sub(1, std::memory_order_seq_cst) == 1) caller.wake();
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads), state_(std::make_unique<State>()) {
  if (num_threads < 1 || num_threads > 1024) bad_input("{} threads a rank; use 1 to 1024", num_threads);
  if (num_threads <= usable_cores()) state_->spin = kSpin;
  for (int i = 1; i < num_threads; ++i) state_->threads.emplace_back([this, i] { state_->help(i); });
}

ThreadPool::~ThreadPool() {
  state_->stopping = true;
  state_->begin_round();
  for (std::thread& thread : state_->threads) thread.join();
}

void ThreadPool::set_spin(std::chrono::nanoseconds spin) { state_->spin = spin; }

void ThreadPool::run(const std::function<void(int)>& work) {
  if (num_threads_ == 1) return work(0);
  State& state = *state_;
  state.work = &work;
  state.error = nullptr;
  state.running.store(num_threads_ - 1, std::memory_order_relaxed);
  state.begin_round();
  state.call(0);
  const auto ended = [&] { return state.running.load(std::memory_order_seq_cst) == 0; };
  if (!spin_until(state.spin, ended)) state.caller.sleep_until(ended);
  if (state.error) std::rethrow_exception(std::exchange(state.error, nullptr));
}

void deal(ThreadPool& threads, std::span<const std::int64_t> counts,
          const std::function<void(std::size_t list, std::int64_t i)>& work) {
  std::atomic<std::int64_t> next{0};
  threads.run([&](int) {
    std::size_t list = 0;
    std::int64_t before = 0;  // in the lists before this one
    for (;;) {
      const std::int64_t mine = next.fetch_add(1, std::memory_order_relaxed);
      while (list < counts.size() && mine >= before + counts[list]) before += counts[list++];
      if (list == counts.size()) return;
      work(list, mine - before);
    }
  });
}

}  // namespace weft
