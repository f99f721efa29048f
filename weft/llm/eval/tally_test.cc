// Items counted by task, and means over tasks.
#include "weft/llm/eval/tally.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

std::vector<TaskItem> named(std::initializer_list<const char*> names) {
  std::vector<TaskItem> items;
  for (const char* name : names) items.push_back({.name = name});
  return items;
}

TEST(Tally, CountsByNameInTheOrderOfFirstItems) {
  const auto items = named({"b", "a", "b", "b", "a"});
  const std::vector<ItemScore> scores{{true, 1}, {false, -2}, {true, 5e-5}, {false, -5e-5}, {true, 3}};
  std::vector<TaskUnit> units(3);
  units[0].item = 1, units[0].cut = true;
  units[1].item = 1, units[1].cut = true;  // two choices of one item: one item that was cut
  units[2].item = 2;
  const auto tasks = tally(items, units, scores);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].name, "b");
  EXPECT_EQ(tasks[0].places, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(tasks[0].right, 2);
  EXPECT_EQ(tasks[0].close, 2) << "of either sign";
  EXPECT_EQ(tasks[0].cut, 0);
  EXPECT_DOUBLE_EQ(tasks[0].accuracy(), 2.0 / 3);
  EXPECT_EQ(tasks[1].cut, 1);
  EXPECT_DOUBLE_EQ(tasks[1].accuracy(), 0.5);
}

TEST(Tally, TheMeanIsOverTasksNotItems) {
  const auto items = named({"many", "many", "many", "few"});
  const std::vector<ItemScore> scores{{true, 1}, {true, 1}, {true, 1}, {false, -1}};
  const auto tasks = tally(items, {}, scores);
  const MeanAccuracy mean = mean_accuracy(tasks);
  EXPECT_DOUBLE_EQ(mean.mean, 0.5);
  EXPECT_GT(mean.half, 0);
  EXPECT_LT(mean.half, (tasks[1].interval().high - tasks[1].interval().low) / 2)
      << "a mean of two is surer than the worse";
}

TEST(Tally, OneTaskIsItsOwnMean) {
  const auto items = named({"a", "a", "a"});
  const std::vector<ItemScore> scores{{true, 1}, {false, 1}, {true, 1}};
  const auto tasks = tally(items, {}, scores);
  EXPECT_DOUBLE_EQ(mean_accuracy(tasks).mean, tasks[0].accuracy());
  EXPECT_NEAR(mean_accuracy(tasks).half, (tasks[0].interval().high - tasks[0].interval().low) / 2, 1e-12);
}

TEST(Tally, PairsLookAtTheItemsOfOneTask) {
  const auto items = named({"a", "b", "a"});
  const std::vector<ItemScore> first{{true, 1}, {true, 1}, {false, 1}}, second{{true, 1}, {false, 1}, {true, 1}};
  const auto tasks = tally(items, {}, first);
  const PairedAccuracy a = paired_accuracy(tasks[0], first, second), b = paired_accuracy(tasks[1], first, second);
  EXPECT_EQ(a.items, 2);
  EXPECT_EQ(a.only_second, 1);
  EXPECT_EQ(a.only_first, 0);
  EXPECT_DOUBLE_EQ(a.difference, 0.5);
  EXPECT_DOUBLE_EQ(b.difference, -1);
}

}  // namespace
}  // namespace weft
