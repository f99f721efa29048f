// Discrete events in integer picoseconds. Events of one instant come in the order in which they were scheduled, so the
// same input gives the same run, bit for bit, on every machine. What an event means is its owner's business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/sim/time.h"

namespace weft::sim {

struct Event {
  Time at = 0;
  std::uint64_t order = 0;
  std::int16_t kind = 0, device = 0;
  std::int32_t a = 0, b = 0;
};

class Engine {
 public:
  Time now() const { return now_; }
  std::uint64_t events() const { return order_; }

  void schedule(Time at, int kind, int device, std::int32_t a = 0, std::int32_t b = 0) {
    heap_.push_back({at, order_++, static_cast<std::int16_t>(kind), static_cast<std::int16_t>(device), a, b});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  // The next event, whose time is now(); false where there is none.
  bool next(Event* event) {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    *event = heap_.back();
    heap_.pop_back();
    now_ = event->at;
    return true;
  }

 private:
  static bool later(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }

  std::vector<Event> heap_;
  std::uint64_t order_ = 0;
  Time now_ = 0;
};

}  // namespace weft::sim
