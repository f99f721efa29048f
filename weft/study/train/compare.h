// What hides the transfers of a training: the same model, batch and mesh in six ways, which take turns step by step.
//
//   send_recv, local_allgather, broadcast   1f1b; stages stop for transfers, by that strategy
//   broadcast + overlap                     1f1b; transfers go on while stages compute, gradients leave first
//   .. + eager_1f1b                         the full system
//   one element                             the same, but of every transfer one element is sent: a bound
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/pipeline/trainer.h"
#include "weft/world/world.h"

namespace weft {

struct TrainStyle {
  std::string name;
  pipeline::Kind schedule = pipeline::Kind::one_f_one_b;
  pipeline::TransferOptions transfers;
};
std::vector<TrainStyle> train_styles();

struct TrainContestOptions {
  int rounds = 7;
  std::vector<std::string> styles;  // by name, the full system and the bound last; none: all
  pipeline::TrainerOptions trainer;
  std::function<void(int done, int of)> progress = {};
};

struct TrainStyleResult {
  std::string name, schedule;
  double step_us = 0;       // median
  double predicted_us = 0;  // of the schedule with the costs below; optimizer and sums of gradients are not in it
  double cpu_us = 0;        // of all ranks
  std::vector<double> peak_activations;
  // Per stage and step, on the first of its ranks, on average: what its micro-batches took without waiting, and what it
  // waited for other stages.
  std::vector<double> work_us, waited_us;
};

struct TrainContest {
  std::vector<TrainStyleResult> styles;
  pipeline::Costs costs;      // measured where only one element travels; transfers as planned by broadcast
  double transfer_ratio = 0;  // the longest transfer between neighbours over forward + backward of the slowest stage
  double aa_band = 0;         // of the full system
  double outside_us = 0;      // of a step, that is neither micro-batches nor transfers: sums and optimizer
  int rounds = 0;

  const TrainStyleResult& style(const std::string& name) const;  // throws bad_input
  double gain() const;                                           // send_recv over the full system
  double over_bound() const;                                     // full system over one element, less 1
};

// Collective. The config is settled; of its schedule and transfers only `delay_weights` and `stream`
// count.
TrainContest compare_training(World& world, const pipeline::TrainConfig& config, const pipeline::TokenData& data,
                              const TrainContestOptions& options);

}  // namespace weft
