#include "weft/schedule/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/schedule/check.h"
#include "weft/schedule/dispatch.h"
#include "weft/schedule/exchange.h"
#include "weft/schedule/timing.h"

namespace weft::pipeline {
namespace {

constexpr double kEqual = 1e-9;         // relative: sums in another order differ by this much
constexpr std::size_t kBeginnings = 4;  // schedules that are improved by exchanges

struct Candidate {
  Schedule schedule;
  double seconds = 0;
};

class Search {
 public:
  Search(const Costs& costs, const SearchOptions& options) : costs_(costs), o_(options), timer_(costs) {}

  SearchResult run() {
    SearchResult result;
    result.named = named_times(costs_, o_);
    for (const NamedTime& named : result.named) keep(named.schedule, named.seconds);
    result.bound = bound();
    add_families();
    add_dispatched();
    improve(result.bound.seconds);
    const Candidate& best = candidates_.front();
    result.schedule = best.schedule;
    result.found = best.schedule.name;
    result.schedule.name = "searched";
    result.seconds = best.seconds;
    result.peak = check(result.schedule).peak();
    result.optimal = best.seconds <= result.bound.seconds * (1 + kEqual);
    result.looked_at = looked_at_;
    return result;
  }

 private:
  int stages() const { return int_size(costs_.stages); }
  int most() const { return o_.memory > 0 ? std::min(o_.memory, o_.micro_batches) : o_.micro_batches; }
  bool interleaves() const { return o_.chunks > 1 && o_.micro_batches % stages() == 0; }

  // Of all schedules that may be looked at.
  Bound bound() const {
    BoundOptions options{o_.micro_batches, 1, o_.memory, o_.recompute == Recompute::yes};
    Bound least = lower_bound(costs_, options);
    if (!interleaves()) return least;
    options.chunks = o_.chunks;
    const Bound chunked = lower_bound(costs_, options);
    return chunked.seconds < least.seconds ? chunked : least;
  }

  // Sorted by time, the first ones only, no two of the same time.
  void keep(const Schedule& schedule, double seconds) {
    const auto place = std::lower_bound(candidates_.begin(), candidates_.end(), seconds * (1 - kEqual),
                                        [](const Candidate& c, double limit) { return c.seconds < limit; });
    if (place != candidates_.end() && place->seconds <= seconds * (1 + kEqual)) return;
    candidates_.insert(place, {schedule, seconds});
    if (candidates_.size() > kBeginnings) candidates_.pop_back();
  }

  void look_at(Schedule schedule, std::string name) {
    if (o_.recompute == Recompute::yes) schedule = with_recompute(schedule);
    schedule.name = std::move(name);
    ++looked_at_;
    spent_ += num_items(schedule);
    if (const auto seconds = timer_.makespan(schedule)) keep(schedule, *seconds);
  }
  bool spent(double share) const { return static_cast<double>(spent_) > share * o_.budget; }

  // How many forwards stage 0 does before its turns: from that of 1f1b to as many as memory or micro-batches allow, at
  // most that of transfers four times as long as what eager_1f1b hides.
  std::vector<int> firsts() const {
    const int n = stages(), last = std::min(most() - 1, 8 * n), step = std::max(1, n / 8);
    std::vector<int> out;
    for (int first = std::min(n - 1, last); first < last; first += step) out.push_back(first);
    out.push_back(last);
    return out;
  }

  void add_families() {
    for (const int first : firsts())
      for (const double hold : {0.0, 0.5, 1.0, 2.0}) {
        if (spent(0.25)) return;
        const std::vector<int> warm_up = ramp(stages(), first);
        std::vector<int> delay;
        for (int i = 0; i < stages(); ++i)
          delay.push_back(std::min(static_cast<int>(hold * i), std::max(0, most() - 1 - warm_up[at(i)])));
        look_at(build_turns(o_.micro_batches, warm_up, delay),
                fmt::format("{} forwards ahead, weights {} turns per stage later", first, hold));
      }
  }

  void add_dispatched() {
    for (const int first : firsts())
      for (const int more : {0, 1, 2, 4})
        for (const double fill : {0.0, 0.5, 1.0}) {
          if (spent(0.5)) return;
          DispatchOptions options{o_.micro_batches, most(), ramp(stages(), first), fill};
          for (int& ahead : options.ahead) ahead = std::min(ahead + 1 + more, most());
          look_at(dispatch(costs_, options), fmt::format("dispatched, {} forwards ahead", first + more));
        }
  }

  void improve(double bound) {
    std::mt19937_64 random(o_.seed);
    const std::vector<Candidate> beginnings = candidates_;
    for (std::size_t i = 0; i < beginnings.size(); ++i) {
      if (candidates_.front().seconds <= bound * (1 + kEqual)) return;
      const std::int64_t share = (o_.budget - spent_) / static_cast<std::int64_t>(beginnings.size() - i);
      if (share <= 0) return;
      const Exchanged better = exchange(
          beginnings[i].schedule, &timer_,
          {.memory = o_.memory * beginnings[i].schedule.num_chunks, .budget = share, .enough = bound * (1 + kEqual)},
          random);
      looked_at_ += better.looked_at;
      spent_ += better.spent;
      Schedule schedule = better.schedule;
      if (better.exchanges > 0) schedule.name += fmt::format(", {} exchanges", better.exchanges);
      keep(schedule, better.seconds);
    }
  }

  const Costs& costs_;
  const SearchOptions& o_;
  Timer timer_;
  std::vector<Candidate> candidates_;
  std::int64_t looked_at_ = 0, spent_ = 0;
};

}  // namespace

std::vector<NamedTime> named_times(const Costs& costs, const SearchOptions& options) {
  const int n = int_size(costs.stages);
  check_sizes(n, options.micro_batches, options.chunks);
  check_costs(costs, n);
  std::vector<NamedTime> out;
  for (const Kind kind : kKinds)
    for (const Backward backward : {Backward::whole, Backward::split}) {
      if (kind == Kind::zero_bubble && backward == Backward::split) continue;  // it always is
      if (kind == Kind::interleaved_1f1b && (options.chunks == 1 || options.micro_batches % n != 0)) continue;
      const BuildOptions build_options{kind, n, options.micro_batches, options.chunks, 0, backward, options.recompute};
      NamedTime named{build(build_options)};
      const Verdict verdict = check(named.schedule);
      named.peak = verdict.peak();
      if (options.memory > 0 && named.peak > options.memory) {
        if (kind == Kind::interleaved_1f1b) continue;  // its order is fixed
        BuildOptions less = build_options;
        less.memory = options.memory;
        named.schedule = build(less);
        named.peak = check(named.schedule).peak();
      }
      if (backward == Backward::split) named.schedule.name += " with split backward";
      named.seconds = timing(named.schedule, costs).makespan_s;
      out.push_back(std::move(named));
    }
  std::stable_sort(out.begin(), out.end(),
                   [](const NamedTime& a, const NamedTime& b) { return a.seconds < b.seconds; });
  return out;
}

SearchResult search(const Costs& costs, const SearchOptions& options) {
  if (options.budget < 1) bad_input("a budget of {} items; use 1 or more", options.budget);
  if (options.memory < 0) bad_input("a memory of {} activations; use 1 or more, or 0 for no limit", options.memory);
  return Search(costs, options).run();
}

}  // namespace weft::pipeline
