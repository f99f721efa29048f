#include "weft/schedule/compare.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft::pipeline {
namespace {

constexpr int kMostCuts = 16;

Costs cut_costs(Costs costs, int cut) {
  for (StageCost& stage : costs.stages)
    for (double* seconds : {&stage.forward_s, &stage.backward_input_s, &stage.backward_weight_s, &stage.recompute_s,
                            &stage.send_forward_s, &stage.send_backward_s})
      *seconds /= cut;
  return costs;
}

// The fewest cuts with which the kind fits; none where no number of them helps.
std::optional<Compared> with_cuts(const Costs& costs, BuildOptions options, int* cut) {
  const int memory = options.memory, micro_batches = options.micro_batches;
  options.memory = 0;
  for (*cut = 2; *cut <= kMostCuts; ++*cut) {
    options.micro_batches = micro_batches * *cut;
    const Schedule schedule = build(options);
    if (check(schedule).peak() > memory * *cut) continue;
    Compared one = compared(schedule, cut_costs(costs, *cut));
    for (double& peak : one.verdict.peak_activations) peak /= *cut;
    for (double& peak : one.verdict.peak_recomputed) peak /= *cut;
    one.timing.num_micro_batches = micro_batches;
    return one;
  }
  return {};
}

void fit(const Costs& costs, const BuildOptions& options, ComparedKind* row) {
  if (row->free->verdict.peak() <= options.memory) {
    row->within = row->free;
    return;
  }
  try {
    row->within = compared(build(options), costs);
  } catch (const Error& error) {
    row->why = error.what();
  }
  int cut = 1;
  const auto smaller = with_cuts(costs, options, &cut);
  if (!smaller || (row->within && row->within->timing.makespan_s <= smaller->timing.makespan_s)) return;
  row->within = smaller;
  row->cut = cut;
}

}  // namespace

int equal_memory(const BuildOptions& options) {
  return options.memory > 0 ? options.memory : std::min(options.stages, options.micro_batches);
}

Compared compared(const Schedule& schedule, const Costs& costs) {
  return {schedule, check(schedule), timing(schedule, costs)};
}

std::vector<ComparedKind> compare_kinds(const Costs& costs, BuildOptions options) {
  check_sizes(options.stages, options.micro_batches, options.chunks);
  check_costs(costs, options.stages);
  const int memory = equal_memory(options);
  std::vector<ComparedKind> out;
  for (const Kind kind : kKinds) {
    out.push_back({.kind = kind});
    options.kind = kind;
    options.memory = 0;
    try {
      out.back().free = compared(build(options), costs);
      options.memory = memory;
      fit(costs, options, &out.back());
    } catch (const Error& error) {
      out.back().why = error.what();
    }
  }
  return out;
}

}  // namespace weft::pipeline
