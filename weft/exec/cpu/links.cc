#include "weft/exec/cpu/links.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/plan/program.h"
#include "weft/transport/transport.h"

namespace weft {
namespace {

constexpr std::uint32_t kMostSlots = 1 << 16;

// How far a link's queue may reach ahead: what a sleeper that is due may be late by on a busy machine. Had it all been
// issued at once, three hosts that exchange with each other in listed order took 1.26 x their time, since whose y
// opened first got all first.
constexpr std::int64_t kAheadNs = 2'000'000;

}  // namespace

std::uint32_t Links::slots_of(const Expander& expander, int rank) {
  std::uint64_t signals = 0;
  for (std::int64_t c = 0; c < expander.num_counters(rank); ++c)
    signals += expander.counter_total(static_cast<int>(c), rank);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::bit_ceil(2 * signals), 16, kMostSlots));
}

std::size_t Links::bytes_of(const Expander& expander, int rank, int num_ranks) {
  return num(num_ranks) * Transit::bytes_for(slots_of(expander, rank));
}

Links::Links(const Pace& pace, int rank, const Memory& memory, const std::vector<std::byte*>& transits,
             const Expander& expander, Transport& transport, bool ordered)
    : pace_(pace), ordered_(ordered), rank_(rank), memory_(memory), transport_(transport), outbound_(transits.size()) {
  const auto between = [&](int target, int source) {
    const std::uint32_t slots = slots_of(expander, target);
    return Transit(transits[target] + num(source) * Transit::bytes_for(slots), slots);
  };
  for (int peer = 0; peer < int_size(transits); ++peer) {
    const int here = memory.world_rank[rank], there = memory.world_rank[peer];
    if (!pace.between(here, there)) continue;
    Outbound& out = outbound_[peer];
    out.transit = between(peer, rank);
    inbound_.push_back(between(rank, peer));
    if (pace.fabric == Fabric::nic) {
      out.clock = &transport.link_clock(pace.host(here), kAllHosts);
      out.their_nic = &transport.link_clock(kAllHosts, pace.host(there));
      nic_ = &transport.link_clock(kAllHosts, pace.host(here));
    } else {
      out.clock = &transport.link_clock(pace.host(here), pace.host(there));
    }
  }
}

std::int64_t Links::room_at(int target) const {
  const std::int64_t room = outbound_[target].clock->load(std::memory_order_relaxed) - kAheadNs;
  return room > now_ns() ? room : Transit::kNothing;
}

Passage Links::signal(int target, std::int64_t counter, std::int64_t bytes) {
  Outbound& out = outbound_[target];
  const Passage passage = occupy(*out.clock, pace_, bytes, now_ns());
  for (;;) {
    const Transit::Push pushed = out.transit->push(static_cast<std::uint32_t>(counter), passage.due_ns,
                                                   out.their_nic != nullptr ? passage.took_ns() : 0);
    if (pushed == Transit::Push::first) ring_if_asleep(*memory_.bells[target]);
    if (pushed != Transit::Push::full) return passage;
    // A receiver that is busy elsewhere does not look, so the sender delivers for it: time alone frees a slot.
    const std::int64_t again = deliver(*out.transit, target, now_ns(), out.their_nic);
    if (again != Transit::kNothing)
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::clamp<std::int64_t>(again - now_ns(), 0, 1'000'000)));
    transport_.check();
  }
}

std::int64_t Links::deliver(Transit& transit, int target, std::int64_t now, std::atomic<std::int64_t>* nic) {
  bool raised = false;
  const auto raise = [&](std::uint32_t counter) {
    memory_.counter(target, counter).fetch_add(1, std::memory_order_seq_cst);
    raised = true;
  };
  const std::int64_t again = transit.deliver(now, raise, nic);
  if (raised) ring_if_asleep(*memory_.bells[target]);
  return again;
}

std::int64_t Links::deliver() {
  if (nic_ != nullptr) return deliver_in_turn();
  std::int64_t again = Transit::kNothing, now = 0;
  for (Transit& transit : inbound_) {
    if (transit.empty()) continue;
    if (now == 0) now = now_ns();
    again = std::min(again, deliver(transit, rank_, now, nullptr));
  }
  return again;
}

// Signals that share the NIC are charged to it in the order in which their bytes arrive (pace.h). Each turn serves the
// earliest head whose time has come; what is then not yet due has its time, and is looked at again when that has come.
std::int64_t Links::deliver_in_turn() {
  std::int64_t now = 0;
  bool raised = false;
  const auto raise = [&](std::uint32_t counter) {
    memory_.counter(rank_, counter).fetch_add(1, std::memory_order_seq_cst);
    raised = true;
  };
  for (;;) {
    Transit* earliest = nullptr;
    std::int64_t turn = Transit::kNothing, again = Transit::kNothing;
    for (Transit& transit : inbound_) {
      const auto head = transit.head();
      if (!head) continue;
      again = std::min(again, head->due_ns);
      if (head->turn_ns() < turn) turn = head->turn_ns(), earliest = &transit;
    }
    if (earliest != nullptr && now == 0) now = now_ns();
    const bool served = earliest != nullptr && turn <= now;
    if (served && earliest->deliver_head(now, raise, nic_)) continue;
    if (raised) ring_if_asleep(*memory_.bells[rank_]);
    return served ? now : again;  // now: somebody else is at it
  }
}

}  // namespace weft
