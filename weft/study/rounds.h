// The one loop of interleaved rounds, run by every rank: contestants take turns (a, b, c, a, b, c, ...), each turn
// from a common start until the slowest rank is done. One of them has a second turn in every round: how far its two
// medians lie apart is the A/A band, and no difference below it means anything.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/study/clock.h"

namespace weft {

struct Contestant {
  std::string name;
  std::function<void()> run;  // what is timed: returns when its result is usable here
  // Not timed, each may be empty: before the common start; and after the turn, where it checks or counts, and may give
  // a whole number from 0 to 2^62 that every rank is told (TurnTime::said).
  std::function<void()> prepare = {};
  std::function<std::int64_t(std::uint64_t round)> after = {};
};

// One turn, as all ranks saw it. Times in microseconds.
struct TurnTime {
  double us = 0;                   // of the slowest rank
  double cpu_us = 0;               // of all ranks together
  double late_us = 0;              // from the common start until the last rank set off; part of `us`
  std::int64_t start_ns = 0;       // the common start, by this rank's clock
  std::vector<std::int64_t> said;  // what `after` gave, rank by rank
};

enum class TurnOrder {
  rotated,  // who begins changes from round to round, so that nobody always follows the same contestant
  listed    // always as listed: for contestants that are compared with the first one's result of the same round
};

struct RoundsOptions {
  int rounds = 15;
  std::string twice;  // the contestant with a second turn; empty: none
  TurnOrder order = TurnOrder::rotated;
  double budget_s = 0;  // not 0: as many rounds as fit, at least kLeastRounds of `rounds`
  std::function<void(std::uint64_t round)> refresh = {};  // before each round: new inputs; round 0 warms up
  // After each turn, those of round 0 included, on every rank: false, alike on all of them, stops the rounds.
  std::function<bool(const Contestant&, std::uint64_t round, const TurnTime&)> judge = {};
  std::function<void(int done, int of)> progress = {};
};

class Rounds {
 public:
  static constexpr int kLeastRounds = 5;

  Rounds(CommonClock& clock, std::vector<Contestant> contestants, RoundsOptions options);

  // Collective, as is all that runs turns; false where `judge` stopped it. The first call warms up.
  bool run();
  bool more(int rounds);  // the same contestants for some rounds more, into the same medians

  int count() const { return done_; }        // rounds done, without the one that warms up
  int runs_of(std::string_view name) const;  // turns it had, those that warm up included
  bool has(std::string_view name) const;
  const std::vector<TurnTime>& turns(std::string_view name) const;         // without second turns; throws if unknown
  std::optional<double> median_us(std::string_view name) const;            // none where there is no such contestant
  double median_of(std::string_view name, double TurnTime::*field) const;  // as &TurnTime::cpu_us
  double aa_band() const;                                                  // 0 where nobody had second turns

 private:
  bool round(std::uint64_t round);
  TurnTime turn(const Contestant& contestant, std::uint64_t round);
  void fit_budget(std::int64_t round_ns);
  std::optional<std::size_t> find(std::string_view name) const;

  CommonClock& clock_;
  std::vector<Contestant> contestants_;
  RoundsOptions options_;
  std::vector<std::vector<TurnTime>> turns_;  // by contestant
  std::vector<TurnTime> again_;
  int done_ = 0, warmed_ = 0, wanted_ = 0;
};

// Who has turns in a round, in order; `again` marks the second turn of contestant `twice`. Which of its two turns is
// the second one changes from round to round, so that neither has the better place.
struct TurnPlace {
  std::size_t contestant = 0;
  bool again = false;
};
std::vector<TurnPlace> turn_places(std::size_t contestants, std::optional<std::size_t> twice, std::uint64_t round,
                                   TurnOrder order);

}  // namespace weft
