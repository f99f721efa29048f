// Scores of items counted by task: accuracies with their intervals, and their mean over tasks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/llm/eval/statistics.h"
#include "weft/llm/eval/tasks.h"

namespace weft {

inline constexpr double kCloseMargin = 1e-4;  // another number of ranks may round an item this close the other way

// The items of one name.
struct TaskTally {
  std::string name;
  std::vector<std::size_t> places;  // of its items among all of them
  std::int64_t right = 0;
  std::int64_t close = 0;  // within kCloseMargin of the other answer
  std::int64_t cut = 0;    // whose context was cut to fit

  std::int64_t items() const { return std::ssize(places); }
  double accuracy() const { return static_cast<double>(right) / items(); }
  Interval interval() const { return wilson(right, items()); }
};

// Tasks in the order of their first items. `scores` has one for every item.
std::vector<TaskTally> tally(std::span<const TaskItem> items, std::span<const TaskUnit> units,
                             std::span<const ItemScore> scores);

// The items of one task under two configurations.
PairedAccuracy paired_accuracy(const TaskTally& task, std::span<const ItemScore> first,
                               std::span<const ItemScore> second);

// The mean of the tasks' accuracies, as papers give it, and half of its interval: the tasks' variances add.
struct MeanAccuracy {
  double mean = 0, half = 0;
};
MeanAccuracy mean_accuracy(std::span<const TaskTally> tasks);  // of at least one

}  // namespace weft
