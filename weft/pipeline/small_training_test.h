// What the trainer's tests share: a small model, text that can be learnt, and its losses on any mesh.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/pipeline/trainer.h"
#include "weft/world/world.h"

namespace weft::pipeline {

inline TrainConfig small_config() {
  TrainConfig config;
  config.file = "test";
  config.model = {.vocab = 61, .hidden = 32, .layers = 4, .heads = 4, .kv_heads = 4, .mlp = 48, .sequence = 12};
  config.steps = 5;
  config.batch = 8;
  config.micro_batches = 4;
  config.lr = {.peak = 3e-3, .warm_up = 2, .steps = 0, .last = 0.1};
  config.out = "";
  return config;
}

// Tokens in which what follows depends on the two before.
inline std::vector<int> small_text(int vocab, int count = 4000) {
  std::vector<int> tokens{1, 2};
  while (int_size(tokens) < count) {
    const int a = tokens[tokens.size() - 1], b = tokens[tokens.size() - 2];
    tokens.push_back((a * 7 + b * 3 + (tokens.size() % 5 == 0 ? 1 : 0)) % vocab);
  }
  return tokens;
}

struct SmallResult {
  std::vector<double> losses, norms, peaks;
};

// Trains as the config says, on threads of this process.
inline SmallResult train_small(TrainConfig config, const WorldOptions& options = {.threads = 1}, int threads = 1) {
  settle(&config);
  const TokenData data(small_text(static_cast<int>(config.model.vocab)), config.model.sequence, config.seed);
  SmallResult result;
  World::local(
      config.num_ranks(),
      [&](World& world) {
        Trainer trainer(world, config, data, {.threads = threads, .pace = {}});
        SmallResult mine;
        while (trainer.steps() < config.steps) {
          const StepReport step = trainer.step();
          mine.losses.push_back(step.loss);
          mine.norms.push_back(step.gradient_norm);
        }
        mine.peaks = trainer.peak_activations();
        if (world.rank() == 0) result = std::move(mine);
      },
      options);
  return result;
}

inline void expect_close(const std::vector<double>& got, const std::vector<double>& want, double relative) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], relative * want[i]) << "step " << i + 1;
}

}  // namespace weft::pipeline
