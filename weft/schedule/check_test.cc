// The checker refuses what cannot run, and nothing else.
#include "weft/schedule/check.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/schedule/build.h"
#include "weft/schedule/random_test.h"
#include "weft/schedule/save.h"
#include "weft/schedule/ticks_test.h"

namespace weft::pipeline {
namespace {

Schedule of(const std::string& items, int micro_batches) {
  return parse_schedule("{\"name\": \"s\", \"stages\": 2, \"chunks\": 1, \"micro_batches\": " +
                            std::to_string(micro_batches) + ", \"items\": " + items + "}",
                        "test");
}
std::string first_problem(const std::string& items, int micro_batches = 1) {
  const Verdict verdict = check(of(items, micro_batches));
  return verdict.ok() ? "none" : verdict.problems.front();
}

TEST(Check, ProblemsAreNamed) {
  EXPECT_EQ(first_problem(R"([["f0", "b0"], ["f0", "b0"]])"), "none");
  EXPECT_EQ(first_problem(R"([["f0"], ["f0", "b0"]])"), "stage 0 never does the backward of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "b0"], ["b0"]])"), "stage 1 never does the forward of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "b0", "f0"], ["f0", "b0"]])"),
            "stage 0 does the forward of micro-batch 0 twice, as items 0 and 2");
  EXPECT_EQ(first_problem(R"([["b0", "f0"], ["f0", "b0"]])"),
            "stage 0 does the backward of micro-batch 0 before the forward of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "i0"], ["f0", "b0"]])"),
            "stage 0 never does the backward_weight of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "w0"], ["f0", "b0"]])"), "stage 0 never does the backward_input of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "w0", "i0"], ["f0", "b0"]])"),
            "stage 0 does the backward_weight of micro-batch 0 before the backward_input of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "b0", "w0"], ["f0", "b0"]])"),
            "stage 0 does the backward of micro-batch 0 whole and in parts");
  EXPECT_EQ(first_problem(R"([["f0", "b0", "r0"], ["f0", "b0"]])"),
            "stage 0 does the backward of micro-batch 0 before the recompute of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["r0", "f0", "b0"], ["f0", "b0"]])"),
            "stage 0 does the recompute of micro-batch 0 before the forward of micro-batch 0");
  EXPECT_EQ(first_problem(R"([["f0", "b0"], ["f0", "b7"]])"),
            "stage 1, item 1: backward of micro-batch 7, chunk 0, which this pipeline has not");
}

TEST(Check, NamesStagesThatWaitForEachOther) {
  const Verdict verdict = check(of(R"([["f0", "b0", "f1", "b1"], ["f0", "f1", "b0", "b1"]])", 2));
  ASSERT_EQ(verdict.problems.size(), 2u);
  EXPECT_EQ(verdict.problems[0],
            "stages wait for each other: stage 0 would do the backward of micro-batch 0 (item 1), which needs the "
            "backward of micro-batch 0 of stage 1");
  EXPECT_EQ(verdict.problems[1],
            "stages wait for each other: stage 1 would do the forward of micro-batch 1 (item 1), which needs the "
            "forward of micro-batch 1 of stage 0");
}

// What a stage does with one micro-batch stays in order, all else is random: each next item is of one of the first
// `reach` micro-batches that are not done.
std::vector<WorkItem> shuffled(const std::vector<WorkItem>& items, int reach, RandomPipeline& random) {
  std::vector<std::vector<WorkItem>> left;
  for (const WorkItem& item : items) {
    const auto same = std::find_if(left.begin(), left.end(), [&](const auto& l) {
      return l.front().micro_batch == item.micro_batch && l.front().chunk == item.chunk;
    });
    if (same == left.end())
      left.push_back({item});
    else
      same->push_back(item);
  }
  std::vector<WorkItem> out;
  while (!left.empty()) {
    const int k = random.from(0, std::min(reach, int_size(left)) - 1);
    out.push_back(left[at(k)].front());
    left[at(k)].erase(left[at(k)].begin());
    if (left[at(k)].empty()) left.erase(left.begin() + k);
  }
  return out;
}

// The checker passes those orders that a clock brings to their end, and no others.
TEST(Check, AgreesWithAClockOnRandomOrders) {
  RandomPipeline random(2);
  int passed = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const BuildOptions o = random.options(4, 4);
    Schedule schedule = build(o);
    const int reach = random.from(1, 3);
    for (auto& items : schedule.stages) items = shuffled(items, reach, random);
    const Verdict verdict = check(schedule);
    for (const std::string& problem : verdict.problems)
      EXPECT_NE(problem.find("wait for each other"), std::string::npos);
    EXPECT_EQ(verdict.ok(), Ticks(schedule, random.costs(o.stages)).run().has_value()) << to_json(schedule);
    ++(verdict.ok() ? passed : refused);
  }
  EXPECT_GT(passed, 300);
  EXPECT_GT(refused, 300);
}

// One change of content is always a problem: something is then missing, twice, or of no stage.
TEST(Check, RefusesEveryMutant) {
  RandomPipeline random(3);
  for (int round = 0; round < 4000; ++round) {
    const BuildOptions o = random.options(5, 8);
    const Schedule good = build(o);
    Schedule schedule = good;
    auto& items = schedule.stages[at(random.from(0, o.stages - 1))];
    const int k = random.from(0, int_size(items) - 1);
    WorkItem& item = items[at(k)];
    switch (random.from(0, 4)) {
      case 0:
        items.insert(items.begin() + random.from(0, int_size(items)), WorkItem(item));
        break;
      case 1:
        item.micro_batch = random.from(-1, o.micro_batches);
        break;
      case 2:
        item.chunk = random.from(-1, schedule.num_chunks);
        break;
      case 3:
        item.work = static_cast<Work>(random.from(0, kNumWorks));
        break;
      case 4:
        items.erase(items.begin() + k);
        break;
    }
    // Leaving one recomputation out is no mistake: that micro-batch keeps its activations.
    const bool harmless =
        num_items(schedule) < num_items(good) && good.stages != schedule.stages && check(schedule).ok();
    if (schedule == good) continue;
    EXPECT_EQ(check(schedule).ok(), harmless && o.recompute == Recompute::yes) << to_json(schedule);
  }
}

TEST(Check, RefusesSizesThatCannotBe) {
  EXPECT_NE(refusal([] { check(Schedule{}); }).find("0 stages"), std::string::npos);
  EXPECT_NE(refusal([] { check(Schedule{.num_micro_batches = 1 << 30, .stages = {{}}}); }).find("micro-batches"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::pipeline
