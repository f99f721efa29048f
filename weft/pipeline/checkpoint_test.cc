#include "weft/pipeline/checkpoint.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/pipeline/small_training_test.h"

namespace weft::pipeline {
namespace {

// Trains up to `end` steps from the latest checkpoint of the folder, and leaves one.
std::vector<double> go_on(TrainConfig config, const std::string& folder, std::int64_t end) {
  settle(&config);
  const TokenData data(small_text(static_cast<int>(config.model.vocab)), config.model.sequence, config.seed);
  std::vector<double> losses;
  World::local(config.num_ranks(),
               [&](World& world) {
                 Trainer trainer(world, config, data);
                 if (const auto latest = latest_checkpoint(folder)) load_checkpoint(*latest, config, trainer);
                 world.barrier();
                 Saver saver(world, config, trainer);
                 while (trainer.steps() < end) {
                   const double loss = trainer.step().loss;
                   if (world.rank() == 0) losses.push_back(loss);
                 }
                 saver.save(folder, 1);
               },
               {.threads = 1});
  return losses;
}

std::vector<double> last_of(const std::vector<double>& all, std::size_t count) {
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

TEST(Checkpoint, TrainingGoesOnWithTheSameLosses) {
  TrainConfig config = small_config();
  config.steps = 6;
  const std::vector<double> whole = train_small(config).losses;
  const ScratchFolder folder;
  go_on(config, folder.path(), 3);
  EXPECT_EQ(go_on(config, folder.path(), 6), last_of(whole, 3));
}

TEST(Checkpoint, OfAnyMeshStartsOnAnyOther) {
  TrainConfig config = small_config();
  config.steps = 8;
  const std::vector<double> whole = train_small(config).losses;
  const ScratchFolder folder;
  config.stages = {{0, 2, 1}, {0, 1, 2}};
  go_on(config, folder.path(), 2);
  config.stages = {{1, 1, 4}, {3, 1, 1}};
  config.schedule = Kind::gpipe;
  expect_close(go_on(config, folder.path(), 4), {whole[2], whole[3]}, 1e-5);
  config.stages = {{0, 1, 1}};
  expect_close(go_on(config, folder.path(), 8), last_of(whole, 4), 1e-5);
}

TEST(Checkpoint, OnlyTheNewestAreKept) {
  const ScratchFolder folder;
  go_on(small_config(), folder.path(), 1);
  go_on(small_config(), folder.path(), 2);
  EXPECT_EQ(latest_checkpoint(folder.path()), checkpoint_path(folder.path(), 2));
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(folder.path(), 1)));
}

TEST(Checkpoint, WhatWasCutOffIsNeverLoaded) {
  const ScratchFolder folder;
  go_on(small_config(), folder.path(), 1);
  const std::string path = checkpoint_path(folder.path(), 1);
  const auto bytes = std::filesystem::file_size(path);
  for (const std::uintmax_t left : {bytes - 1, bytes / 2, std::uintmax_t{5}}) {
    std::filesystem::resize_file(path, left);
    EXPECT_NE(refusal([&] { go_on(small_config(), folder.path(), 2); }), "did not throw") << left;
  }
  folder.write("checkpoint-000007.safetensors.part", "half");  // what lies aside is no checkpoint
  EXPECT_EQ(latest_checkpoint(folder.path()), path);
}

TEST(Checkpoint, AnotherModelIsRefused) {
  const ScratchFolder folder;
  go_on(small_config(), folder.path(), 1);
  TrainConfig other = small_config();
  other.model.mlp = 64;
  EXPECT_NE(refusal([&] { go_on(other, folder.path(), 2); }).find("it is of another model"), std::string::npos);
}

TEST(Checkpoint, AFailedSaveStopsAllRanksAndKeepsTheLastGoodOne) {
  const ScratchFolder folder;
  TrainConfig config = small_config();
  config.stages = {{0, 1, 1}, {0, 1, 1}};
  go_on(config, folder.path(), 1);
  const std::string before = *latest_checkpoint(folder.path());
  // A folder in the place of the next file: nothing can be renamed over it.
  std::filesystem::create_directories(checkpoint_path(folder.path(), 2) + "/x");
  EXPECT_THROW(
      {
        settle(&config);
        const TokenData data(small_text(61), config.model.sequence, config.seed);
        World::local(2,
                     [&](World& world) {
                       Trainer trainer(world, config, data);
                       load_checkpoint(before, config, trainer);
                       Saver saver(world, config, trainer);
                       trainer.step();
                       saver.save(folder.path(), 1);
                     },
                     {.threads = 1});
      },
      Error);
  EXPECT_NO_THROW(TensorFile::open(before));
}

}  // namespace
}  // namespace weft::pipeline
