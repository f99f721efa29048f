#include "weft/study/sim/fit.h"

#include <algorithm>

namespace weft::sim {
namespace {

struct Bounds {
  std::string_view key;
  double low, high;
};
constexpr Bounds kBounds[] = {
    {"gemm_efficiency", 0.5, 0.95}, {"dram_latency", 0.4e-6, 0.8e-6},    {"kernel_rate", 400e9, 700e9},
    {"update_factor", 2, 2.5},      {"grant_bytes", 1024, 16384},        {"stream_switch", 3e-9, 20e-9},
    {"turnaround", 2e-9, 15e-9},    {"starvation_limit", 0.5e-6, 30e-6}, {"llc_ways", 1, 16}};
constexpr double kSteps[] = {1.3, 1.15, 1.07};
constexpr double kLeastGain = 0.01;

double squared(double x) { return x * x; }

}  // namespace

double fit_cost(const SimSummary& s, Simulator& simulator, const std::vector<SimCase>& cases) {
  double cost = squared(s.ideal.geomean - 35) + squared(s.t3_mca.geomean - 30) + 0.5 * squared(s.t3.geomean - 20) +
                0.5 * squared(s.nmc_8 - 7) + 0.5 * squared(s.nmc_16 - 3) + 10 * squared(s.gemm_reads - 1.56) +
                0.25 * squared(s.traffic_cut - 22) +
                0.1 * (squared(s.ideal.max - 50) + squared(s.t3_mca.max - 47) + squared(s.t3.max - 39));
  for (const SimCase& one : cases) {
    const double ideal = simulator.speedup(one, Config::ideal_overlap), mca = simulator.speedup(one, Config::t3_mca);
    const double t3 = simulator.speedup(one, Config::t3);
    if (one.layer.name == "op") cost += 600 * std::max(0.0, 0.993 * ideal - mca);
    cost += 100 * (std::max(0.0, t3 - mca) + std::max(0.0, mca - ideal - 0.026));
  }
  return cost;
}

Chip fitted_chip(Chip chip, const std::function<void(const FitStep&)>& tell) {
  const std::vector<SimCase> cases = fitted_cases();
  const auto tried = [&](const Chip& one) {
    Simulator simulator(one);
    FitStep step{.seen = summary(simulator, cases)};
    step.cost = fit_cost(step.seen, simulator, cases);
    return step;
  };
  FitStep best = tried(chip);
  tell(best);
  for (const double step : kSteps)
    for (const Bounds& bounds : kBounds)
      for (const double factor : {step, 1 / step})
        for (int again = 0; again < 2; ++again) {
          Chip changed = chip;
          const double value = std::clamp(knob(chip, bounds.key) * factor, bounds.low, bounds.high);
          set_knob(&changed, bounds.key, value);
          if (changed == chip) break;
          FitStep next = tried(changed);
          if (next.cost > best.cost - kLeastGain) break;
          next.key = bounds.key;
          next.value = value;
          tell(next);
          best = next;
          chip = changed;
        }
  return chip;
}

}  // namespace weft::sim
