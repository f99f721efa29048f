// How renumbering ranks renumbers counters. Rules name counters by index: one that does not depend on the rank, or one
// with digits of it, such as `c * slot + u` with c = (r - 1 - s) % N. All names of a family must fit together, or ranks
// of one class would mean different counters by one name.
//
// Signals say how: a zone is a range of indices that signals name with the same digits. Zones of a family may not
// overlap, and within one each index is named in one way only, so adding to the rank's digits moves the zone's counters
// in one way. What is waited for must move likewise: each wait by the same digits, or a list of waits, as `used[j] for
// j < H`, that has all values of the digits that it does not name.
//
// Where actions travel whole, a range of counters that a signal raises rises at one instant. Then a name that leaves
// out low digits and spans all their values, as `c * slot` for the chunks of a block, is a list of all those values;
// and of a range that no digit moves, each part is as good as any other.
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
  bool is_even = true;    // all of them rise by the same
};

class CounterZones {
 public:
  CounterZones(const Digits& digits, std::int64_t count, bool whole) : digits_(digits), count_(count), whole_(whole) {}

  void add_signal(const NamedCounters& named);
  void add_waits(std::vector<NamedCounters> list);  // all for one value

  bool are_consistent();

 private:
  using Signature = std::vector<std::pair<std::int64_t, std::int32_t>>;  // (a, digit), largest a first
  using Range = std::pair<std::int64_t, std::int64_t>;
  using List = std::vector<NamedCounters>;
  struct Zone {
    Signature digits;
    std::int64_t low = 0, high = 0;  // of b
    std::int64_t end = 0;            // of the indices
  };
  Signature signature_of(const Symbolic& positive) const;
  std::int64_t extent(const Signature& signature) const;
  bool make_zones();
  bool fits(const List& list) const;
  bool fits_zone(const List& list, const Zone& zone) const;
  bool rises_at_once(std::int64_t low, std::int64_t end) const;
  void spell_out();
  bool spelt_out(const NamedCounters& named, const Signature& all, std::int64_t unit, List* out) const;

  const Digits& digits_;
  const std::int64_t count_;
  const bool whole_;
  std::map<Signature, List> signalled_;
  std::vector<List> waits_;  // and what signals name in other ways than their zone's
  std::vector<Zone> zones_;
};

}  // namespace weft::netsim
