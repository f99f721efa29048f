#include "weft/schedule/exchange.h"

#include <algorithm>

namespace weft::pipeline {
namespace {

constexpr int kReach = 6;         // places that an item moves at once, at most
constexpr double kEnds = 0.1;     // weight of the stages' ends beside the makespan
constexpr double kWorse = 0.003;  // of the makespan: how much worse a move may be at the beginning

// Whether `second` may come before `first` on one stage: not where they are of one chunk and either of one micro-batch,
// whose order is fixed, or of one kind, whose micro-batches stay in ascending order.
bool free_of(const WorkItem& first, const WorkItem& second) {
  return first.chunk != second.chunk || (first.micro_batch != second.micro_batch && first.work != second.work);
}

bool fits(const std::vector<WorkItem>& items, int memory) {
  int held = 0;
  for (const WorkItem& item : items) {
    if (item.work == Work::forward && ++held > memory && memory > 0) return false;
    held -= item.work == Work::backward || item.work == Work::backward_weight;
  }
  return true;
}

// Moves item `from` to place `to` as far as it may go; false: it may not go at all.
bool move(std::vector<WorkItem>* items, int from, int to) {
  const int step = to > from ? 1 : -1;
  int place = from;
  while (place != to) {
    const WorkItem &a = (*items)[at(std::min(place, place + step))], &b = (*items)[at(std::max(place, place + step))];
    if (!free_of(a, b)) break;
    std::swap((*items)[at(place)], (*items)[at(place + step)]);
    place += step;
  }
  return place != from;
}

// What a move is judged by: the makespan, and a little of when the stages end, which tells apart the many schedules of
// one makespan.
double judged(double seconds, const Timer& timer, int stages) { return seconds + kEnds * timer.sum_of_ends() / stages; }

}  // namespace

Exchanged exchange(const Schedule& schedule, Timer* timer, const ExchangeLimits& limits, std::mt19937_64& random) {
  Exchanged best{.schedule = schedule};
  best.seconds = timer->makespan(schedule).value();
  const int n = schedule.num_stages();
  const std::int64_t items = num_items(schedule);
  const auto below = [&](int limit) { return static_cast<int>(random() % num(limit)); };
  Schedule now = schedule;
  double value = judged(best.seconds, *timer, n);
  while (best.spent + items <= limits.budget && best.seconds > limits.enough) {
    best.spent += 1;  // a move that cannot be is not free either
    auto& stage = now.stages[at(below(n))];
    const int from = below(int_size(stage)), far = 1 + below(kReach);
    const int to = std::clamp(below(2) == 0 ? from - far : from + far, 0, int_size(stage) - 1);
    const std::vector<WorkItem> before = stage;
    const bool moved = move(&stage, from, to);
    if (!moved || !fits(stage, limits.memory)) {
      stage = before;
      continue;
    }
    best.spent += items;
    ++best.looked_at;
    const auto seconds = timer->makespan(now);
    const double left = 1 - static_cast<double>(best.spent) / limits.budget;
    const double next = seconds ? judged(*seconds, *timer, n) : 0;
    if (!seconds || next > value + kWorse * left * best.seconds) {
      stage = before;
      continue;
    }
    value = next;
    if (*seconds >= best.seconds * (1 - 1e-12)) continue;
    best.schedule = now;
    best.seconds = *seconds;
    ++best.exchanges;
  }
  return best;
}

}  // namespace weft::pipeline
