// Plans that have been verified, as text: the same op again costs no proof. A world that compiles new shapes all the
// time forgets them all when they have become too much, so its memory is bounded; what comes again is proved again.
#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace weft {

class Proved {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // some 500 plans of 8 KB

  explicit Proved(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  bool has(const std::string& plan) const { return plans_.count(plan) > 0; }
  void add(const std::string& plan) {
    if (bytes_ + plan.size() > most_bytes_) plans_.clear(), bytes_ = 0;
    if (plans_.insert(plan).second) bytes_ += plan.size();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;  // of the texts
  std::set<std::string> plans_;
};

}  // namespace weft
