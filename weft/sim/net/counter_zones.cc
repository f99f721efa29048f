#include "weft/sim/net/counter_zones.h"

#include <algorithm>

namespace weft::netsim {

CounterZones::Signature CounterZones::signature_of(const Symbolic& positive) const {
  Signature out;
  for (const Term& t : positive.terms()) out.emplace_back(t.a, t.digit);
  std::sort(out.rbegin(), out.rend());
  return out;
}

void CounterZones::add_signal(const NamedCounters& named) {
  const Symbolic value = named.index.positive(digits_);
  signalled_[signature_of(value)].emplace_back(value.b(), value.b() + named.span);
}

void CounterZones::add_waits(std::vector<NamedCounters> list) { waits_.push_back(std::move(list)); }

std::int64_t CounterZones::extent(const Signature& signature) const {
  std::int64_t sum = 0;
  for (const auto& [a, digit] : signature) sum += a * (digits_.size(digit) - 1);
  return sum;
}

bool CounterZones::make_zones() {
  for (auto& [signature, ranges] : signalled_) {
    std::sort(ranges.begin(), ranges.end());
    for (const auto& [low, high] : ranges) {
      if (!zones_.empty() && zones_.back().digits == signature && low < zones_.back().end) {
        Zone& zone = zones_.back();
        zone.high = std::max(zone.high, high);
        zone.end = zone.high + extent(signature);
      } else {
        zones_.push_back({signature, low, high, high + extent(signature)});
      }
    }
  }
  for (const Zone& zone : zones_) {
    // Each digit must be worth as much as all below it together, and more.
    std::int64_t below = zone.high - zone.low;
    for (auto digit = zone.digits.rbegin(); digit != zone.digits.rend(); ++digit) {
      if (digit->first < below) return false;
      below += digit->first * (digits_.size(digit->second) - 1);
    }
    if (zone.low < 0 || zone.end > count_) return false;
  }
  std::sort(zones_.begin(), zones_.end(), [](const Zone& a, const Zone& b) { return a.low < b.low; });
  for (std::size_t z = 1; z < zones_.size(); ++z)
    if (zones_[z].low < zones_[z - 1].end) return false;
  return true;
}

// Of the waits of one list that are in the zone: seen from rank 0, adding one to a digit moves the counters by all of
// the zone's terms with that digit. The wait itself moves by those it names; by the others the list must map to itself.
bool CounterZones::fits_zone(const std::vector<NamedCounters>& list, const Zone& zone) const {
  std::vector<Range> seen;
  for (const NamedCounters& named : list) {
    std::int64_t value = named.index.b();
    for (const Term& t : named.index.terms()) value += t.a * t.e;
    seen.emplace_back(value, named.span);
  }
  std::sort(seen.begin(), seen.end());
  for (const NamedCounters& named : list) {
    if (signature_of(named.index) != signature_of(list[0].index)) return false;
    std::int64_t value = named.index.b();
    for (const Term& t : named.index.terms()) value += t.a * t.e;
    std::int64_t rest = value - zone.low;
    std::vector<std::int64_t> image(num(digits_.num()), value);
    std::size_t named_terms = 0;
    for (const auto& [a, digit] : zone.digits) {
      const std::int64_t size = digits_.size(digit), e = std::min(rest / a, size - 1);
      rest -= e * a;
      const auto terms = named.index.terms();
      const auto own = std::find_if(terms.begin(), terms.end(),
                                    [&, a = a, digit = digit](const Term& t) { return t.a == a && t.digit == digit; });
      if (own != terms.end() && own->e != e) return false;
      if (own != terms.end())
        ++named_terms;
      else
        image[at(digit)] += a * ((e + 1) % size - e);
    }
    if (named_terms != named.index.terms().size() || rest + named.span > zone.high - zone.low) return false;
    for (const std::int64_t moved : image)
      if (!std::binary_search(seen.begin(), seen.end(), Range(moved, named.span))) return false;
  }
  return true;
}

bool CounterZones::fits(const std::vector<NamedCounters>& list) const {
  std::vector<bool> is_placed(list.size(), false);
  for (const Zone& zone : zones_) {
    if (zone.digits.empty()) continue;
    std::vector<NamedCounters> inside;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int64_t low = list[i].index.b();
      const std::int64_t end = low + list[i].span + extent(signature_of(list[i].index));
      if (end <= zone.low || zone.end <= low) continue;
      if (low < zone.low || end > zone.end) return false;
      inside.push_back(list[i]);
      is_placed[i] = true;
    }
    if (!inside.empty() && !fits_zone(inside, zone)) return false;
  }
  for (std::size_t i = 0; i < list.size(); ++i)  // where nothing moves
    if (!is_placed[i] && !list[i].index.is_constant()) return false;
  return true;
}

bool CounterZones::are_consistent() {
  if (!make_zones()) return false;
  for (std::vector<NamedCounters>& list : waits_) {
    for (NamedCounters& named : list) named.index = named.index.positive(digits_);
    if (!fits(list)) return false;
  }
  return true;
}

}  // namespace weft::netsim
