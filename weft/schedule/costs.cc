#include "weft/schedule/costs.h"

#include <cmath>

#include "weft/base/error.h"
#include "weft/base/names.h"

namespace weft::pipeline {
namespace {

constexpr Names<Transfers, 2> kTransfers{{{Transfers::overlapped, "overlapped"}, {Transfers::blocking, "blocking"}}};
constexpr double kMaxCost = 1e9;  // seconds: sums over millions of items stay exact enough to compare

}  // namespace

std::string_view to_string(Transfers transfers) { return name_of(kTransfers, transfers); }

double StageCost::of(Work work) const {
  switch (work) {
    case Work::forward:
      return forward_s;
    case Work::backward:
      return backward_input_s + backward_weight_s;
    case Work::backward_input:
      return backward_input_s;
    case Work::backward_weight:
      return backward_weight_s;
    case Work::recompute:
      return recompute_s;
  }
  return 0;
}

Costs uniform_costs(const UniformCosts& uniform) {
  const StageCost stage{.forward_s = uniform.forward_s,
                        .backward_input_s = uniform.backward_s * (1 - uniform.weight_share),
                        .backward_weight_s = uniform.backward_s * uniform.weight_share,
                        .recompute_s = uniform.forward_s,
                        .send_forward_s = uniform.transfer_s,
                        .send_backward_s = uniform.transfer_s};
  return {std::vector<StageCost>(num(uniform.stages), stage), uniform.transfers};
}

void check_costs(const Costs& costs, int stages) {
  if (int_size(costs.stages) != stages)
    bad_input("costs of {} stages for a schedule of {}; give one per stage", costs.stages.size(), stages);
  for (int i = 0; i < stages; ++i) {
    const StageCost& s = costs.stages[at(i)];
    for (const double cost :
         {s.forward_s, s.backward_input_s, s.backward_weight_s, s.recompute_s, s.send_forward_s, s.send_backward_s})
      if (!(cost >= 0 && cost <= kMaxCost)) bad_input("stage {} has a cost of {} s; give 0 to {} s", i, cost, kMaxCost);
  }
}

}  // namespace weft::pipeline
