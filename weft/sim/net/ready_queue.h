// The triggers of one rank that may fire now: first come, first fired, or by the plan's order where it has one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/base/index.h"
#include "weft/sim/net/script.h"

namespace weft::netsim {

class ReadyQueue {
 public:
  bool empty() const { return bursts_.empty(); }

  void push(const Script& script, std::int32_t burst) {
    bursts_.push_back(burst);
    if (script.has_order) std::push_heap(bursts_.begin(), bursts_.end(), Later{script});
  }

  std::int32_t pop(const Script& script) {
    if (script.has_order) {
      std::pop_heap(bursts_.begin(), bursts_.end(), Later{script});
      const std::int32_t burst = bursts_.back();
      bursts_.pop_back();
      return burst;
    }
    const std::int32_t burst = bursts_[fired_++];
    if (fired_ == bursts_.size()) bursts_.clear(), fired_ = 0;
    return burst;
  }

 private:
  struct Later {  // of two triggers, for a heap with the lowest order on top
    const Script& script;
    bool operator()(std::int32_t a, std::int32_t b) const {
      const std::int64_t x = script.bursts[at(a)].order, y = script.bursts[at(b)].order;
      return x != y ? x > y : a > b;
    }
  };

  std::vector<std::int32_t> bursts_;
  std::size_t fired_ = 0;
};

}  // namespace weft::netsim
