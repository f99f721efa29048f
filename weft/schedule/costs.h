// What the work and the transfers of a pipeline take, as data. Stages may differ.
#pragma once

#include <string_view>
#include <vector>

#include "weft/base/index.h"
#include "weft/schedule/schedule.h"

namespace weft::pipeline {

// Seconds for one micro-batch through the whole stage; a chunk takes 1 / chunks of the work. What is sent does not
// depend on chunks.
struct StageCost {
  double forward_s = 0;
  double backward_input_s = 0, backward_weight_s = 0;  // a whole backward is their sum
  double recompute_s = 0;
  double send_forward_s = 0;   // activations to the next stage
  double send_backward_s = 0;  // gradients to the stage before

  double of(Work work) const;
  friend bool operator==(const StageCost&, const StageCost&) = default;
};

// Who carries a transfer.
//   overlapped  a link: one for each direction between two neighbours, one transfer at a time, in the order in which
//               they were made. Stages compute meanwhile.
//   blocking    the stages themselves. The sender sends right after the work that made it and does nothing else; the
//               receiver receives right before the work that needs it, not before the sender begins, and does nothing
//               else. What a stage sends after an item and what it receives for the next one go at the same time. The
//               sender does not wait for the receiver: a rendezvous would be slower.
enum class Transfers { overlapped, blocking };

std::string_view to_string(Transfers transfers);

struct Costs {
  std::vector<StageCost> stages;
  Transfers transfers = Transfers::overlapped;

  friend bool operator==(const Costs&, const Costs&) = default;
};

// All stages alike; `weight_share` of the backward is for the weights, and recomputing takes what forward does.
struct UniformCosts {
  int stages = 4;
  double forward_s = 1, backward_s = 2, transfer_s = 0, weight_share = 0.5;
  Transfers transfers = Transfers::overlapped;
};
Costs uniform_costs(const UniformCosts& uniform);

// Throws bad_input where there are not as many stages as in the schedule, or a cost is negative or not finite.
void check_costs(const Costs& costs, int stages);

}  // namespace weft::pipeline
