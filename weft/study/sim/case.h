// What `weft sim` simulates: the sub-layers of models whose output is summed over the devices, the plans they run, and
// their results, each simulated once however often it is asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "weft/cluster/workload.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/chip/configuration.h"

namespace weft::sim {

struct SimCase {
  std::string model;
  int tp = 0;
  SubLayer layer;
};

// The sub-layers of a model that end in a sum over `tp` devices: op and fc2 forward, fc1_bwd and ip_bwd backward.
std::vector<SimCase> summed_layers(const Workload& workload, int tp);
std::vector<SimCase> fitted_cases();     // Mega-GPT-2 on 8 and 16: what the free parameters were frozen on
std::vector<SimCase> predicted_cases();  // T-NLG on 8 and 16
std::vector<SimCase> large_cases();      // GPT-3, PALM and MT-NLG on 32
std::vector<SimCase> paper_cases();      // the first two together: the 16 of the paper's figures

// One product and its plans. The output is cut along its longer side: a chunk is then tall enough for whole tiles.
struct SimShape {
  std::int64_t m = 0, n = 0, k = 0;
  int devices = 1;
  int element_bytes = 2;
};
SimShape shape_of(const SimCase& one);
CasePlans plans_of(const SimShape& shape, const Chip& chip);

class Simulator {
 public:
  explicit Simulator(Chip chip) : chip_(std::move(chip)) {}
  const Chip& chip() const { return chip_; }

  const CaseResult& run(const SimShape& shape, Config config);
  const CaseResult& run(const SimCase& one, Config config) { return run(shape_of(one), config); }
  double speedup(const SimCase& one, Config config);  // over sequential
  RunResult fused(const SimCase& one, Config config, double bin_s, bool slices);

 private:
  struct Kept {
    CasePlans plans;
    std::unique_ptr<Case> of;
    std::map<Config, CaseResult> results;
  };
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, int, int>;
  Kept& kept(const SimShape& shape);

  Chip chip_;
  std::map<Key, std::unique_ptr<Kept>> kept_;
};

double largest(const std::vector<double>& values);

}  // namespace weft::sim
