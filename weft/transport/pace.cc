#include "weft/transport/pace.h"

#include <algorithm>
#include <cmath>

#include "weft/base/clock.h"
#include "weft/transport/wait.h"

namespace weft {

Passage occupy(std::atomic<std::int64_t>& clock, const Pace& pace, std::int64_t bytes, std::int64_t now) {
  const auto took = static_cast<std::int64_t>(std::llround(static_cast<double>(bytes) / pace.bytes_per_s * 1e9));
  const auto latency = static_cast<std::int64_t>(std::llround(pace.latency_s * 1e9));
  std::int64_t free = clock.load(std::memory_order_relaxed);
  std::int64_t begin = 0;
  do {
    begin = std::max(free, now);
  } while (!clock.compare_exchange_weak(free, begin + took, std::memory_order_relaxed));
  return {begin, begin + took, begin + took + latency};
}

std::chrono::nanoseconds sleep_until(std::int64_t due_ns) {
  if (due_ns == Transit::kNothing) return kSleepSlice;
  return std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(due_ns - now_ns()), {}, kSleepSlice);
}

std::size_t Transit::bytes_for(std::uint32_t slots) { return sizeof(Header) + slots * sizeof(Slot); }

Transit::Transit(std::byte* memory, std::uint32_t slots)
    : header_(reinterpret_cast<Header*>(memory)),
      slots_(reinterpret_cast<Slot*>(memory + sizeof(Header))),
      mask_(slots - 1) {}

bool Transit::empty() const {
  const std::uint32_t ticket = header_->delivered.load(std::memory_order_seq_cst);
  return slots_[ticket & mask_].ticket.load(std::memory_order_seq_cst) != ticket + 1;
}

Transit::Push Transit::push(std::uint32_t counter, std::int64_t due_ns) {
  std::uint32_t ticket = header_->next.load(std::memory_order_relaxed);
  do {
    // Acquire: the slot is written again only after its last signal was read out of it.
    if (ticket - header_->delivered.load(std::memory_order_acquire) > mask_) return Push::full;
  } while (!header_->next.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed));
  Slot& slot = slots_[ticket & mask_];
  slot.counter = counter;
  slot.due_ns = due_ns;
  slot.ticket.store(ticket + 1, std::memory_order_seq_cst);
  return header_->delivered.load(std::memory_order_seq_cst) == ticket ? Push::first : Push::queued;
}

}  // namespace weft
