#include "weft/transport/local/pace.h"

#include <algorithm>
#include <cmath>

#include "weft/base/clock.h"
#include "weft/transport/local/wait.h"

namespace weft {
namespace {

// Takes `took` of a clock from `from` on, or from when it is free; returns the beginning.
std::int64_t take(std::atomic<std::int64_t>& clock, std::int64_t from, std::int64_t took) {
  std::int64_t free = clock.load(std::memory_order_relaxed);
  std::int64_t begin = 0;
  do {
    begin = std::max(free, from);
  } while (!clock.compare_exchange_weak(free, begin + took, std::memory_order_relaxed));
  return begin;
}

}  // namespace

Passage occupy(std::atomic<std::int64_t>& clock, const Pace& pace, std::int64_t bytes, std::int64_t now) {
  const auto took = static_cast<std::int64_t>(std::llround(bytes / pace.bytes_per_s * 1e9));
  const auto latency = static_cast<std::int64_t>(std::llround(pace.latency_s * 1e9));
  const std::int64_t begin = bytes == 0 && pace.fabric == Fabric::nic ? now : take(clock, now, took);
  return {begin, begin + took, begin + took + latency};
}

std::chrono::nanoseconds sleep_until(std::int64_t due_ns) {
  if (due_ns == Transit::kNothing) return kSleepSlice;
  return std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(due_ns - now_ns()), {}, kSleepSlice);
}

std::size_t Transit::bytes_for(std::uint32_t slots) {
  return (sizeof(Header) + slots * sizeof(Slot) + 63) & ~std::size_t{63};
}

Transit::Transit(std::byte* memory, std::uint32_t slots)
    : header_(reinterpret_cast<Header*>(memory)),
      slots_(reinterpret_cast<Slot*>(memory + sizeof(Header))),
      mask_(slots - 1) {}

const Transit::Slot* Transit::first_slot() const {
  const std::uint32_t ticket = header_->delivered.load(std::memory_order_seq_cst);
  const Slot& slot = slots_[ticket & mask_];
  return slot.ticket.load(std::memory_order_seq_cst) == ticket + 1 ? &slot : nullptr;
}

bool Transit::empty() const { return first_slot() == nullptr; }

std::optional<Transit::Head> Transit::head() const {
  const Slot* slot = first_slot();
  if (slot == nullptr) return {};
  return Head{slot->due_ns.load(std::memory_order_relaxed), slot->arriving_ns.load(std::memory_order_relaxed)};
}

// With the lock. Charges the signal if its bytes have begun to arrive.
bool Transit::is_due(Slot& slot, std::int64_t now, std::atomic<std::int64_t>* nic) {
  std::int64_t due = slot.due_ns.load(std::memory_order_relaxed);
  const std::int64_t arriving = slot.arriving_ns.load(std::memory_order_relaxed);
  if (nic != nullptr && arriving > 0 && due - arriving <= now) {
    due = take(*nic, due - arriving, arriving) + arriving;
    slot.due_ns.store(due, std::memory_order_relaxed);
    slot.arriving_ns.store(0, std::memory_order_relaxed);
  }
  return due <= now;
}

Transit::Push Transit::push(std::uint32_t counter, std::int64_t due_ns, std::int64_t arriving_ns) {
  std::uint32_t ticket = header_->next.load(std::memory_order_relaxed);
  do {
    // Acquire: the slot is written again only after its last signal was read out of it.
    if (ticket - header_->delivered.load(std::memory_order_acquire) > mask_) return Push::full;
  } while (!header_->next.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed));
  Slot& slot = slots_[ticket & mask_];
  slot.counter = counter;
  slot.due_ns.store(due_ns, std::memory_order_relaxed);
  slot.arriving_ns.store(arriving_ns, std::memory_order_relaxed);
  slot.ticket.store(ticket + 1, std::memory_order_seq_cst);
  return header_->delivered.load(std::memory_order_seq_cst) == ticket ? Push::first : Push::queued;
}

}  // namespace weft
