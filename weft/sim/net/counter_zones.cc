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
  signalled_[signature_of(value)].push_back({value, named.span, named.is_even});
}

void CounterZones::add_waits(List list) { waits_.push_back(std::move(list)); }

std::int64_t CounterZones::extent(const Signature& signature) const {
  std::int64_t sum = 0;
  for (const auto& [a, digit] : signature) sum += a * (digits_.size(digit) - 1);
  return sum;
}

bool CounterZones::make_zones() {
  for (const auto& [signature, list] : signalled_) {
    std::vector<Range> ranges;
    for (const NamedCounters& named : list) ranges.emplace_back(named.index.b(), named.index.b() + named.span);
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
bool CounterZones::fits_zone(const List& list, const Zone& zone) const {
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

bool CounterZones::fits(const List& list) const {
  std::vector<bool> is_placed(list.size(), false);
  for (const Zone& zone : zones_) {
    if (zone.digits.empty()) continue;
    List inside;
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
  for (std::size_t i = 0; i < list.size(); ++i) {  // where nothing moves
    if (is_placed[i] || list[i].index.is_constant()) continue;
    const std::int64_t low = list[i].index.b();
    if (!rises_at_once(low, low + list[i].span + extent(signature_of(list[i].index)))) return false;
  }
  return true;
}

// Whether the range lies within those of signals that have no digits, and no such signal has only a part of it.
bool CounterZones::rises_at_once(std::int64_t low, std::int64_t end) const {
  const auto found = signalled_.find({});
  if (!whole_ || found == signalled_.end()) return false;
  bool is_inside = false;
  for (const NamedCounters& named : found->second) {
    const std::int64_t begin = named.index.b(), last = begin + named.span;
    if (end <= begin || last <= low) continue;
    if (low < begin || end > last || !named.is_even) return false;
    is_inside = true;
  }
  return is_inside;
}

// `named` as a list of names with the digits `all`, each of `unit` counters: the digits that it lacks must be the low
// ones, and its span all of their values, without gaps.
bool CounterZones::spelt_out(const NamedCounters& named, const Signature& all, std::int64_t unit, List* out) const {
  const Signature own = signature_of(named.index);
  if (own.size() >= all.size() || !std::equal(own.begin(), own.end(), all.begin())) return false;
  std::int64_t covered = unit;
  for (std::size_t i = all.size(); i-- > own.size();) {
    if (all[i].first != covered) return false;
    covered *= digits_.size(all[i].second);
  }
  if (covered != named.span || !named.is_even) return false;
  for (std::int64_t from = 0; from < covered; from += unit) {
    out->push_back({named.index, unit});
    out->back().index.add(from);
  }
  return true;
}

// Of several ways in which signals name a family, the one with the most digits is its zone's; the others are lists.
void CounterZones::spell_out() {
  const Signature* all = nullptr;
  for (const auto& [signature, list] : signalled_)
    if (!all || signature.size() > all->size()) all = &signature;
  if (!all || all->empty()) return;
  const Signature finest = *all;
  const std::int64_t first = signalled_[finest][0].index.b(), unit = finest.back().first;
  for (auto entry = signalled_.begin(); entry != signalled_.end();) {
    std::vector<List> lists;
    bool all_are = entry->first != finest;
    for (const NamedCounters& named : entry->second) {
      lists.emplace_back();
      all_are = all_are && named.index.b() == first && spelt_out(named, finest, unit, &lists.back());
    }
    if (all_are) waits_.insert(waits_.end(), lists.begin(), lists.end());
    entry = all_are ? signalled_.erase(entry) : std::next(entry);
  }
  for (List& list : waits_) {
    List spelt;
    bool is_spelt = true;
    for (const NamedCounters& named : list)
      is_spelt = is_spelt && named.index.b() == first && spelt_out(named, finest, unit, &spelt);
    if (is_spelt) list = std::move(spelt);
  }
}

bool CounterZones::are_consistent() {
  for (List& list : waits_)
    for (NamedCounters& named : list) named.index = named.index.positive(digits_);
  if (whole_) spell_out();
  if (!make_zones()) return false;
  return std::all_of(waits_.begin(), waits_.end(), [&](const List& list) { return fits(list); });
}

}  // namespace weft::netsim
