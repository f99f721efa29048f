#include "weft/llm/eval/tally.h"

#include <cmath>
#include <map>

namespace weft {

std::vector<TaskTally> tally(std::span<const TaskItem> items, std::span<const TaskUnit> units,
                             std::span<const ItemScore> scores) {
  std::vector<bool> cut(items.size(), false);
  for (const TaskUnit& unit : units)
    if (unit.cut) cut[unit.item] = true;
  std::vector<TaskTally> tasks;
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto [found, is_new] = index.emplace(items[i].name, tasks.size());
    if (is_new) tasks.push_back({.name = items[i].name});
    TaskTally& task = tasks[found->second];
    task.places.push_back(i);
    task.right += scores[i].right;
    task.close += std::abs(scores[i].margin) < kCloseMargin;
    task.cut += cut[i];
  }
  return tasks;
}

PairedAccuracy paired_accuracy(const TaskTally& task, std::span<const ItemScore> first,
                               std::span<const ItemScore> second) {
  std::vector<bool> here, there;
  for (const std::size_t place : task.places) {
    here.push_back(first[place].right);
    there.push_back(second[place].right);
  }
  return paired_accuracy(here, there);
}

MeanAccuracy mean_accuracy(std::span<const TaskTally> tasks) {
  MeanAccuracy out;
  for (const TaskTally& task : tasks) {
    const Interval interval = task.interval();
    out.mean += task.accuracy();
    out.half += (interval.high - interval.low) * (interval.high - interval.low) / 4;
  }
  const double n = tasks.size();
  return {out.mean / n, std::sqrt(out.half) / n};
}

}  // namespace weft
