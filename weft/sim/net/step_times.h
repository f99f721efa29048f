// How long steps take, for a run on a network: from rates, or from a table that somebody measured.
//
//   rates   a step takes `tile_s` per tile and the longer of its arithmetic and its memory traffic: a gemm's or gemv's
//           rows and weights, the rows that bags pool, a copy's input, sources that are added, and what stays on the
//           rank. What leaves the rank is the network's. Rates come from a Cluster or a Chip, or are given
//   table   seconds per tile for every rule that makes tiles, by the rule's name
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "weft/cluster/cluster.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/net/script.h"

namespace weft::netsim {

struct StepRates {
  double flops_per_s = 0;
  double read_bytes_per_s = 0, write_bytes_per_s = 0, gather_bytes_per_s = 0;
  double tile_s = 0;
  double pooled_rows = 32;  // that a bag pools into one
};

StepRates rates_of(const Cluster& cluster);
StepRates rates_of(const sim::Chip& chip);

// Both keep a reference to the plan. Steps of a plan without arithmetic, a collective alone, take no time.
StepSeconds step_seconds(const Plan& plan, const StepRates& rates);

// {"name": "...", "seconds_per_tile": {"ring": 1.2e-6, ...}}. Throws bad_input naming file, key and value, or, where
// the plan has a step that is not in it, the rule.
struct StepTable {
  std::string name;
  std::map<std::string, double> seconds_per_tile;
};
StepTable parse_step_table(std::string_view json, std::string_view where);
StepTable load_step_table(const std::string& path);
StepSeconds step_seconds(const Plan& plan, const StepTable& table);

}  // namespace weft::netsim
