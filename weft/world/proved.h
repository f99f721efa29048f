// Plans that have been verified, as text, each with its outputs that may be the caller's memory (Verdict::own_outputs):
// the same op again costs no proof. A world that compiles new shapes all the
// time forgets them all when they have become too much, so its memory is bounded; what comes again is proved again.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft {

class Proved {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // some 500 plans of 8 KB

  explicit Proved(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Its own outputs; null where it has not been proved. Valid until the next add().
  const std::vector<int>* find(const std::string& plan) const {
    const auto found = plans_.find(plan);
    return found == plans_.end() ? nullptr : &found->second;
  }
  void add(const std::string& plan, std::vector<int> own_outputs) {
    if (bytes_ + plan.size() > most_bytes_) plans_.clear(), bytes_ = 0;
    if (plans_.emplace(plan, std::move(own_outputs)).second) bytes_ += plan.size();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;  // of the texts
  std::map<std::string, std::vector<int>> plans_;
};

}  // namespace weft
