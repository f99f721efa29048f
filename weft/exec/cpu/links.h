// One op's paced links as one rank sees them: its signals to ranks of other hosts go into transit, and those of others
// to it come out when their time has come (transport/local/pace.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/exec/cpu/memory.h"
#include "weft/transport/local/pace.h"

namespace weft {

class Expander;
class Transport;

class Links {
 public:
  // Signals that may be under way to `rank` from one peer before the sender has to wait: those of two runs.
  static std::uint32_t slots_of(const Expander& expander, int rank);
  static std::size_t bytes_of(const Expander& expander, int rank, int num_ranks);

  // transits[q] is rank q's memory of bytes_of(), with a Transit from every rank. `ordered`: the plan says in which
  // order its triggers should go.
  Links(const Pace& pace, int rank, const Memory& memory, const std::vector<std::byte*>& transits,
        const Expander& expander, Transport& transport, bool ordered);

  bool paces(int target) const { return outbound_[target].transit.has_value(); }
  // Hands a signal to the link, after `bytes` that it covers. Where too many are under way, waits for some to arrive;
  // throws where a rank has failed meanwhile.
  Passage signal(int target, std::int64_t counter, std::int64_t bytes);

  // Where all that this host sends shares a NIC, or a plan has an order, a trigger that is ready waits here, and not in
  // the link's queue, which serves in the order of issue. So what is listed first and is ready a little later still
  // goes first. Only so much is handed over as keeps the link busy until this rank looks again. Waiting cannot block a
  // plan: the link's clock is a time, and nothing moves it on but what was handed over before.
  bool holds_back(int target) const { return paces(target) && (ordered_ || pace_.fabric == Fabric::nic); }
  // When there is room on the link to a paced target, or kNothing: now.
  std::int64_t room_at(int target) const;

  // Raises what is due here. Returns when to look again, or Transit::kNothing.
  std::int64_t deliver();

 private:
  struct Outbound {
    std::optional<Transit> transit;                  // none: the same host
    std::atomic<std::int64_t>* clock = nullptr;      // of the link that it leaves by
    std::atomic<std::int64_t>* their_nic = nullptr;  // where the receiver's NIC is shared: its clock
  };
  std::int64_t deliver(Transit& transit, int target, std::int64_t now, std::atomic<std::int64_t>* nic);
  std::int64_t deliver_in_turn();

  Pace pace_;
  bool ordered_;
  int rank_;
  const Memory& memory_;
  Transport& transport_;
  std::vector<Outbound> outbound_;
  std::vector<Transit> inbound_;
  std::atomic<std::int64_t>* nic_ = nullptr;  // of this host, inwards; null where pairs of hosts have clocks
};

}  // namespace weft
