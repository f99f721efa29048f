// Training from beginning to end: data, weights or the last checkpoint, steps, checkpoints, and the model as a folder.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "weft/pipeline/checkpoint.h"
#include "weft/pipeline/trainer.h"

namespace weft::pipeline {

// Text and tokenizer of a config. Sets the model's vocabulary; settles the config.
TokenData load_data(TrainConfig* config);

struct TrainOptions {
  int threads = 1;      // of each rank
  bool resume = false;  // from the latest checkpoint of the config's folder, where there is one
  int keep = 2;         // checkpoints; 0: all
};

struct TrainResult {
  std::vector<StepReport> steps;
  std::vector<double> peak_activations;  // per stage, as counted
  std::int64_t resumed_at = 0;           // steps that were done before
  std::string model;                     // the folder that was written; empty: none
  double seconds = 0;                    // of all steps
  double tokens_per_s = 0;
};

// Collective; all ranks have read the same data. `tell` is called after every step, on every rank.
TrainResult train(World& world, const TrainConfig& config, const TokenData& data, const TrainOptions& options,
                  const std::function<void(const StepReport&)>& tell);

}  // namespace weft::pipeline
