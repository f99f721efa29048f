// `weft train`: flags, and what is said of a training.
#pragma once

#include <string>
#include <vector>

#include "weft/pipeline/train.h"

#include "cli/rank_flags.h"

namespace weft::cli::train {

struct Flags {
  std::string config, schedule, out, metrics, svg;
  std::int64_t steps = -1;
  RankFlags ranks{.threads = 0};
  bool resume = false, no_overlap = false, compare = false, json = false;
  int rounds = 7;                // of --compare
  std::vector<double> paced_us;  // forward and backward
  pipeline::ComputePace pace;    // the same
};

int compare_on_rank(World& world, const Flags& flags, const pipeline::TrainConfig& config,
                    const pipeline::TokenData& data, int threads);

std::string step_line(const pipeline::StepReport& step, std::int64_t of);
std::string metrics_line(const pipeline::StepReport& step);  // JSON, with its end of line
std::string to_text(const pipeline::TrainConfig& config, const pipeline::TrainResult& result);
std::string to_json(const pipeline::TrainConfig& config, const pipeline::TrainResult& result);
std::string loss_picture(const pipeline::TrainResult& result);  // SVG

}  // namespace weft::cli::train
