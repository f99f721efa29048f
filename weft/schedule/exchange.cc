#include "weft/schedule/exchange.h"

#include <algorithm>

namespace weft::pipeline {
namespace {

constexpr int kReach = 6;  // places that an item moves at once, at most

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

}  // namespace

Exchanged exchange(const Schedule& schedule, Timer* timer, const ExchangeOptions& options, std::mt19937_64& random) {
  Exchanged best{.schedule = schedule};
  best.seconds = timer->makespan(schedule).value();
  double ends = timer->sum_of_ends();
  const std::int64_t items = num_items(schedule);
  const auto below = [&](int limit) { return static_cast<int>(random() % num(limit)); };
  while (best.spent + items <= options.budget && best.seconds > options.enough) {
    best.spent += 1;  // a move that cannot be is not free either
    auto& stage = best.schedule.stages[at(below(schedule.num_stages()))];
    const int from = below(int_size(stage)), far = 1 + below(kReach);
    const int to = std::clamp(below(2) == 0 ? from - far : from + far, 0, int_size(stage) - 1);
    const std::vector<WorkItem> before = stage;
    if (!move(&stage, from, to)) continue;
    if (!fits(stage, options.memory)) {
      stage = before;
      continue;
    }
    best.spent += items;
    ++best.looked_at;
    const auto seconds = timer->makespan(best.schedule);
    const bool shorter = seconds && *seconds < best.seconds * (1 - 1e-12);
    if (shorter || (seconds && *seconds <= best.seconds && timer->sum_of_ends() <= ends)) {
      best.exchanges += shorter;
      best.seconds = *seconds;
      ends = timer->sum_of_ends();
    } else {
      stage = before;
    }
  }
  return best;
}

}  // namespace weft::pipeline
