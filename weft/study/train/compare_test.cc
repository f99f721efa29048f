// The contest of training styles: each schedule and strategy once, the figures that are made of their times, and a
// small model in all that takes part.
#include "weft/study/train/compare.h"

#include <set>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/pipeline/small_training_test.h"

namespace weft {
namespace {

TEST(TrainStyles, AreOneThingMoreEach) {
  const std::vector<TrainStyle> styles = train_styles();
  std::set<std::string> names;
  for (const TrainStyle& style : styles) names.insert(style.name);
  EXPECT_EQ(names.size(), styles.size());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(styles[i].transfers.overlap) << styles[i].name;
  for (std::size_t i = 3; i < styles.size(); ++i) EXPECT_TRUE(styles[i].transfers.overlap) << styles[i].name;
  EXPECT_EQ(styles[3].schedule, pipeline::Kind::one_f_one_b);
  EXPECT_EQ(styles[4].schedule, pipeline::Kind::eager_1f1b);
  EXPECT_EQ(styles[5].schedule, styles[4].schedule) << "the bound differs from the full system in its messages alone";
  EXPECT_EQ(styles[5].transfers.strategy, styles[4].transfers.strategy);
}

TEST(TrainContest, FiguresComeFromTheTimesOfStyles) {
  TrainContest contest;
  contest.styles.push_back({.name = "send_recv", .schedule = "1f1b", .step_us = 150});
  contest.styles.push_back({.name = "broadcast + overlap + eager_1f1b", .schedule = "eager_1f1b", .step_us = 100});
  EXPECT_DOUBLE_EQ(contest.gain(), 1.5);
  EXPECT_NE(refusal([&] { contest.over_bound(); }).find("no style \"one element\""), std::string::npos);
  contest.styles.push_back({.name = "one element", .schedule = "eager_1f1b", .step_us = 80});
  EXPECT_DOUBLE_EQ(contest.over_bound(), 0.25);
}

TEST(TrainContest, EveryStyleTrainsTheSmallModel) {
  pipeline::TrainConfig config = pipeline::small_config();
  config.stages.resize(2);
  settle(&config);
  const pipeline::TokenData data(pipeline::small_text(61), config.model.sequence, config.seed);
  World::local(
      config.num_ranks(),
      [&](World& world) {
        int turns = 0;
        TrainContestOptions options;
        options.rounds = 2;
        options.progress = [&](int, int of) {
          ++turns;
          EXPECT_EQ(of, 2);
        };
        const TrainContest contest = compare_training(world, config, data, options);
        EXPECT_EQ(contest.rounds, 2);
        ASSERT_EQ(contest.styles.size(), train_styles().size());
        for (const TrainStyleResult& style : contest.styles) {
          EXPECT_GT(style.step_us, 0) << style.name;
          EXPECT_GT(style.predicted_us, 0) << style.name;
          EXPECT_EQ(int_size(style.peak_activations), 2) << style.name;
        }
        EXPECT_GE(contest.style("one element").peak_activations[0], contest.style("send_recv").peak_activations[0])
            << "eager_1f1b holds more than 1f1b";
        EXPECT_GT(contest.transfer_ratio, 0);
        EXPECT_EQ(contest.costs.stages.size(), 2u);
        EXPECT_GT(turns, 0);
      },
      {.threads = 1, .link = Link{.bytes_per_s = 1e9, .latency_s = 1e-6}});
}

TEST(TrainContest, OnlyTheStylesAskedForTakePart) {
  pipeline::TrainConfig config = pipeline::small_config();
  config.stages.resize(2);
  settle(&config);
  const pipeline::TokenData data(pipeline::small_text(61), config.model.sequence, config.seed);
  World::local(config.num_ranks(),
               [&](World& world) {
                 TrainContestOptions options;
                 options.rounds = 1;
                 options.styles = {"broadcast + overlap + eager_1f1b", "one element"};
                 const TrainContest contest = compare_training(world, config, data, options);
                 ASSERT_EQ(contest.styles.size(), 2u);
                 EXPECT_EQ(contest.styles[1].schedule, "eager_1f1b");
                 EXPECT_NE(refusal([&] { contest.gain(); }), "did not throw") << "send_recv was not asked for";
               },
               {.threads = 1});
}

}  // namespace
}  // namespace weft
