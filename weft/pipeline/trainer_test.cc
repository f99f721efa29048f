#include "weft/pipeline/trainer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/pipeline/golden_losses_test.h"
#include "weft/pipeline/small_training_test.h"

namespace weft::pipeline {
namespace {

TEST(Trainer, LossFalls) {
  TrainConfig config = small_config();
  config.steps = 60;
  const SmallResult result = train_small(config);
  EXPECT_NEAR(result.losses.front(), std::log(61.0), 0.05);
  EXPECT_LT(result.losses.back(), 0.8 * result.losses.front());
}

TEST(Trainer, AgreesWithPyTorch) {
  TrainConfig config = small_config();
  config.steps = 20;
  const std::vector<double> golden(std::begin(kGoldenLosses), std::end(kGoldenLosses));
  expect_close(train_small(config).losses, golden, 1e-4);
}

TEST(Trainer, MicroBatchesChangeOnlyRounding) {
  TrainConfig config = small_config();
  const SmallResult four = train_small(config);
  config.micro_batches = 1;
  expect_close(train_small(config).losses, four.losses, 1e-5);
}

TEST(Trainer, ThreadsChangeNothing) {
  const TrainConfig config = small_config();
  EXPECT_EQ(train_small(config, {.threads = 1}, 1).losses, train_small(config, {.threads = 1}, 3).losses);
  TrainConfig staged = config;  // the last product of stage 0 is an op's, made by the threads of the world
  staged.stages.assign(2, {});
  EXPECT_EQ(train_small(staged, {.threads = 1}, 1).losses, train_small(staged, {.threads = 3}, 2).losses);
}

TEST(Trainer, SchedulesAgreeToTheBitAndWithOneRank) {
  TrainConfig config = small_config();
  const SmallResult one = train_small(config);
  for (const int stages : {2, 4}) {
    config.stages.assign(num(stages), {});
    config.schedule = Kind::one_f_one_b, config.transfers = {};
    const SmallResult first = train_small(config);
    expect_close(first.losses, one.losses, 1e-6);
    for (const Kind kind : {Kind::gpipe, Kind::one_f_one_b, Kind::eager_1f1b})
      for (const TransferOptions& how : {TransferOptions{}, TransferOptions{.delay_weights = false}}) {
        config.schedule = kind, config.transfers = how;
        SCOPED_TRACE(std::string(to_string(kind)) + " " + std::to_string(stages));
        EXPECT_EQ(train_small(config).losses, first.losses);
      }
    config.schedule = Kind::one_f_one_b, config.transfers.overlap = false;
    EXPECT_EQ(train_small(config).losses, first.losses) << "stopping, " << stages;
  }
}

TEST(Trainer, FiftyStepsOnEightRanksEndWhereOneRankDoes) {
  TrainConfig config = small_config();
  config.steps = 50;
  const SmallResult one = train_small(config);
  const std::vector<std::vector<StageSize>> meshes = {{{0, 2, 2}, {0, 2, 2}}, {{1, 1, 4}, {0, 2, 1}, {0, 1, 2}}};
  for (const auto& mesh : meshes)
    for (const Kind kind : {Kind::one_f_one_b, Kind::eager_1f1b}) {
      config.stages = mesh, config.schedule = kind;
      expect_close({train_small(config).losses.back()}, {one.losses.back()}, 1e-4);
    }
}

TEST(Trainer, PeakActivationsAreThoseOfTheSchedule) {
  TrainConfig config = small_config();
  config.batch = 8, config.micro_batches = 8, config.steps = 1;
  config.stages.assign(4, {});
  config.schedule = Kind::one_f_one_b;
  EXPECT_EQ(train_small(config).peaks, (std::vector<double>{4, 3, 2, 1}));
  config.schedule = Kind::eager_1f1b;
  EXPECT_EQ(train_small(config).peaks, (std::vector<double>{7, 5, 3, 1}));
  config.schedule = Kind::gpipe;
  EXPECT_EQ(train_small(config).peaks, (std::vector<double>{8, 8, 8, 8}));
}

TEST(Trainer, DataAndTensorParallelMeshesAgreeWithOneRank) {
  TrainConfig config = small_config();
  const SmallResult one = train_small(config);
  const std::vector<std::vector<StageSize>> meshes = {
      {{0, 2, 1}}, {{0, 1, 2}}, {{0, 2, 2}}, {{0, 2, 1}, {0, 1, 2}}, {{1, 1, 4}, {3, 2, 1}}, {{0, 2, 2}, {0, 2, 2}}};
  for (const auto& mesh : meshes) {
    config.stages = mesh;
    SCOPED_TRACE(std::to_string(config.num_ranks()) + " ranks");
    const SmallResult result = train_small(config);
    expect_close(result.losses, one.losses, 1e-5);
    expect_close(result.norms, one.norms, 1e-3);
  }
}

TEST(Trainer, UShapedModelsSendSkipsAcrossStages) {
  TrainConfig config = small_config();
  config.model.u_shaped = true;
  config.model.layers = 5;
  const SmallResult one = train_small(config);
  TrainConfig plain = config;
  plain.model.u_shaped = false;
  EXPECT_NE(train_small(plain).losses, one.losses);
  for (const int stages : {2, 3, 5}) {
    config.stages.assign(num(stages), {});
    config.schedule = Kind::eager_1f1b;
    SCOPED_TRACE(stages);
    expect_close(train_small(config).losses, one.losses, 1e-6);
  }
}

TEST(Trainer, NarrowWeightsStayNearWideOnes) {
  TrainConfig config = small_config();
  const SmallResult wide = train_small(config);
  config.precision = Precision::bf16;
  const SmallResult narrow = train_small(config);
  EXPECT_NE(narrow.losses, wide.losses);
  expect_close(narrow.losses, wide.losses, 1e-2);
  config.stages.assign(2, {});
  expect_close(train_small(config).losses, wide.losses, 1e-2);
}

TEST(Trainer, OneElementMessagesComputeAsMuch) {
  TrainConfig config = small_config();
  config.stages.assign(2, {});
  config.transfers.messages = Messages::one_element;
  EXPECT_EQ(train_small(config).losses.size(), 5u);
}

}  // namespace
}  // namespace weft::pipeline
