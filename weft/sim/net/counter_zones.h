// How renumbering ranks renumbers counters. Rules name counters by index: one that does not depend on the rank, or one
// with digits of it, such as `c * slot + u` with c = (r - 1 - s) % N. All names of a family must fit together, or ranks
// of one class would mean different counters by one name.
//
// Signals say how: a zone is a range of indices that signals name with the same digits. Zones of a family may not
// overlap, and within one each index is named in one way only, so adding to the rank's digits moves the zone's counters
// in one way. What is waited for must move likewise: each wait by the same digits, or a list of waits, as `used[j] for
// j < H`, that has all values of the digits that it does not name.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "weft/sim/net/symbolic.h"

namespace weft::netsim {

struct NamedCounters {
  Symbolic index;
  std::int64_t span = 1;  // counters from there on
};

class CounterZones {
 public:
  CounterZones(const Digits& digits, std::int64_t count) : digits_(digits), count_(count) {}

  void add_signal(const NamedCounters& named);
  void add_waits(std::vector<NamedCounters> list);  // all for one value

  bool are_consistent();

 private:
  using Signature = std::vector<std::pair<std::int64_t, std::int32_t>>;  // (a, digit), largest a first
  using Range = std::pair<std::int64_t, std::int64_t>;
  struct Zone {
    Signature digits;
    std::int64_t low = 0, high = 0;  // of b
    std::int64_t end = 0;            // of the indices
  };
  Signature signature_of(const Symbolic& positive) const;
  std::int64_t extent(const Signature& signature) const;
  bool make_zones();
  bool fits(const std::vector<NamedCounters>& list) const;
  bool fits_zone(const std::vector<NamedCounters>& list, const Zone& zone) const;

  const Digits& digits_;
  const std::int64_t count_;
  std::map<Signature, std::vector<Range>> signalled_;  // [b, b + span)
  std::vector<std::vector<NamedCounters>> waits_;
  std::vector<Zone> zones_;
};

}  // namespace weft::netsim
