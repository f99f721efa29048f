#include "weft/pipeline/pump.h"

#include <algorithm>
#include <chrono>

#include "weft/base/error.h"

namespace weft::pipeline {
namespace {

// A paced link is kept supplied for 2 ms (exec/cpu/links.cc); half of that is soon enough.
constexpr std::chrono::milliseconds kPumpPeriod{1};

}  // namespace

Pump::~Pump() { stop(); }

std::unique_lock<std::mutex> Pump::lock() {
  std::unique_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return lock;
}

void Pump::watch(Op* op) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  if (std::find(watched_.begin(), watched_.end(), op) == watched_.end()) watched_.push_back(op);
  wake_.notify_one();
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
    try {
      std::erase_if(watched_, [](Op* op) { return op->ready(); });
    } catch (...) {
      failure_ = std::current_exception();
      return;
    }
    if (watched_.empty())
      wake_.wait(lock);
    else
      wake_.wait_for(lock, kPumpPeriod);
  }
}

}  // namespace weft::pipeline
