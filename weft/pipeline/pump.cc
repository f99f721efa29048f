#include "weft/pipeline/pump.h"

#include <algorithm>
#include <chrono>

#include "weft/base/clock.h"
#include "weft/base/error.h"

namespace weft::pipeline {
namespace {

// A paced link is kept supplied for 2 ms (exec/cpu/links.cc): a look may be half of that late and need not be sooner.
// What others signal is looked for at least so often; a rank that needs it looks itself.
constexpr std::int64_t kSoonestNs = 1'000'000, kLatestNs = 4'000'000;

}  // namespace

Pump::~Pump() { stop(); }

std::unique_lock<std::mutex> Pump::lock() {
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return lock;
}

void Pump::watch(Op* op) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  if (op->ready()) return;
  if (std::find(watched_.begin(), watched_.end(), op) == watched_.end()) watched_.push_back(op);
  if (op->due_ns() < next_look_ns_ - kSoonestNs || watched_.size() == 1) wake_.notify_one();
}

std::int64_t Pump::looks() {
  const std::lock_guard lock(mutex_);
  return looks_;
}

void Pump::rest() {
  const auto held = lock();
  std::erase_if(watched_, [](Op* op) { return op->ready(); });
  if (!watched_.empty()) fail(Code::internal, "{} ops are under way where a step ends", watched_.size());
}

void Pump::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Pump::work() {
  std::unique_lock lock(mutex_);
  while (!ends_ && !failure_) {
    std::int64_t due = INT64_MAX;
    try {
      std::erase_if(watched_, [&](Op* op) {
        const bool ready = op->ready();
        if (!ready) due = std::min(due, op->due_ns());
        return ready;
      });
    } catch (...) {
      failure_ = std::current_exception();
      return;
    }
    ++looks_;
    const std::int64_t now = now_ns();
    next_look_ns_ = watched_.empty() ? INT64_MAX : std::clamp(due, now + kSoonestNs, now + kLatestNs);
    if (watched_.empty())
      wake_.wait(lock);
    else
      wake_.wait_for(lock, std::chrono::nanoseconds(next_look_ns_ - now));
  }
}

}  // namespace weft::pipeline
