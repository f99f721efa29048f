// One thread tells others what to do next, as often as it likes, and waits for nobody. The others wait as long as it
// takes, for a person may be typing: so this is no barrier of a World, whose waits have deadlines.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace weft {

class Turns {
 public:
  // Turn number `turn` (0, 1, ...) has these tokens. Each is told once.
  void tell(std::vector<int> tokens) {
    const std::lock_guard lock(mutex_);
    told_.push_back(std::move(tokens));
    changed_.notify_all();
  }
  // No more come.
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  // Waits for a turn; none where the end came first.
  std::optional<std::vector<int>> wait_for(std::size_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || turn < told_.size(); });
    return turn < told_.size() ? std::optional(told_[turn]) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<int>> told_;
  bool ended_ = false;
};

}  // namespace weft
