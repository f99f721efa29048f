#include "weft/study/rounds.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"

namespace weft {
namespace {

std::vector<double> field_of(const std::vector<TurnTime>& turns, double TurnTime::*field) {
  std::vector<double> out;
  for (const TurnTime& turn : turns) out.push_back(turn.*field);
  return out;
}

}  // namespace

std::vector<TurnPlace> turn_places(std::size_t contestants, std::optional<std::size_t> twice, std::uint64_t round,
                                   TurnOrder order) {
  std::vector<TurnPlace> places;
  for (std::size_t c = 0; c < contestants; ++c) places.push_back({c, false});
  const bool even = round % 2 == 0;
  if (order == TurnOrder::listed) {
    if (twice) places.insert(even ? places.begin() : places.end(), {*twice, true});
    return places;
  }
  if (twice) {  // half a round from the first turn
    const std::size_t half = (contestants + 1) / 2;
    const std::size_t where = *twice + half <= contestants ? *twice + half : *twice + 1 - half;
    places.insert(places.begin() + where, {*twice, true});
    if (even)
      for (TurnPlace& place : places)
        if (place.contestant == *twice) place.again = !place.again;
  }
  if (!places.empty()) std::rotate(places.begin(), places.begin() + (round % places.size()), places.end());
  return places;
}

Rounds::Rounds(CommonClock& clock, std::vector<Contestant> contestants, RoundsOptions options)
    : clock_(clock), contestants_(std::move(contestants)), options_(std::move(options)), turns_(contestants_.size()) {
  if (!options_.twice.empty() && !find(options_.twice))
    fail(Code::internal, "no contestant is called \"{}\", which was to have two turns in a round", options_.twice);
}

std::optional<std::size_t> Rounds::find(std::string_view name) const {
  for (std::size_t c = 0; c < contestants_.size(); ++c)
    if (contestants_[c].name == name) return c;
  return {};
}

bool Rounds::run() {
  wanted_ = options_.rounds;
  return more(0);
}

bool Rounds::more(int rounds) {
  wanted_ += rounds;
  if (warmed_ == 0) {
    if (!round(0)) return false;
    ++warmed_;
  }
  while (done_ < wanted_) {
    const std::int64_t start = CommonClock::now_ns();
    if (!round(static_cast<std::uint64_t>(done_ + 1))) return false;
    if (++done_ == 1 && options_.budget_s > 0) fit_budget(CommonClock::now_ns() - start);
    if (options_.progress) options_.progress(done_, wanted_);
  }
  return true;
}

bool Rounds::round(std::uint64_t round) {
  if (options_.refresh) options_.refresh(round);
  for (const TurnPlace& place : turn_places(contestants_.size(), find(options_.twice), round, options_.order)) {
    const Contestant& contestant = contestants_[place.contestant];
    TurnTime time = turn(contestant, round);
    const bool go_on = !options_.judge || options_.judge(contestant, round, time);
    if (!go_on) return false;
    if (round > 0) (place.again ? again_ : turns_[place.contestant]).push_back(std::move(time));
  }
  return true;
}

TurnTime Rounds::turn(const Contestant& contestant, std::uint64_t round) {
  if (contestant.prepare) contestant.prepare();
  TurnTime out;
  out.start_ns = clock_.start_together();
  const std::int64_t late = CommonClock::now_ns() - out.start_ns, cpu = clock_.cpu_ns();
  contestant.run();
  const std::int64_t end = CommonClock::now_ns();
  std::int64_t values[] = {end - out.start_ns, clock_.cpu_ns() - cpu, late, 0};
  if (contestant.after) values[3] = contestant.after(round);
  const auto told = clock_.tell(values);
  for (std::size_t at = 0; at < told.size(); at += CommonClock::kValues) {
    out.us = std::max(out.us, told[at] * 1e-3);
    out.cpu_us += told[at + 1] * 1e-3;
    out.late_us = std::max(out.late_us, told[at + 2] * 1e-3);
    out.said.push_back(told[at + 3]);
  }
  return out;
}

// All ranks agree: the sum of what they saw decides.
void Rounds::fit_budget(std::int64_t round_ns) {
  const double ranks = clock_.sum_of_ranks(1);
  const double round_s = clock_.sum_of_ranks(round_ns) * 1e-9 / ranks;
  const double fit = std::min(options_.budget_s / round_s, static_cast<double>(wanted_));
  wanted_ = std::clamp(static_cast<int>(fit), std::min(kLeastRounds, wanted_), wanted_);
}

bool Rounds::has(std::string_view name) const { return find(name).has_value(); }

int Rounds::runs_of(std::string_view name) const { return (done_ + warmed_) * (name == options_.twice ? 2 : 1); }

const std::vector<TurnTime>& Rounds::turns(std::string_view name) const {
  const auto at = find(name);
  if (!at) fail(Code::internal, "no contestant is called \"{}\"", name);
  return turns_[*at];
}

std::optional<double> Rounds::median_us(std::string_view name) const {
  if (!has(name)) return {};
  return median_of(name, &TurnTime::us);
}

double Rounds::median_of(std::string_view name, double TurnTime::*field) const {
  return median(field_of(turns(name), field));
}

double Rounds::aa_band() const {
  if (again_.empty()) return 0;
  return weft::aa_band(field_of(turns(options_.twice), &TurnTime::us), field_of(again_, &TurnTime::us));
}

}  // namespace weft
