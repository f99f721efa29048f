// The events of a run that are still to come: a flat heap of plain records with four children a node, which a pop
// reads side by side. Earliest first; of one instant, the lowest key (run.h says what it is made of).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/sim/time.h"

namespace weft::netsim {

using sim::Time;

struct Event {
  Time at = 0;
  std::uint64_t key = 0;
  std::int32_t message = -1;  // that stands before its next wire, or has arrived; -1: a step has been made
  std::int32_t seat = 0;      // then, whose

  friend bool operator<(const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.key < b.key; }
};

class EventHeap {
 public:
  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }

  void push(const Event& event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!(event < heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  void pop() {
    const Event last = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 4 * hole + 1) {
      std::size_t least = child;
      const std::size_t end = child + 4 < size ? child + 4 : size;
      for (std::size_t i = child + 1; i < end; ++i)
        if (heap_[i] < heap_[least]) least = i;
      if (!(heap_[least] < last)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = last;
  }

 private:
  std::vector<Event> heap_;
};

}  // namespace weft::netsim
