// `weft sim scale WORKLOAD --network NAME|FILE`: a training step on 8 to 1024 ranks, how much each rate matters, and
// the band over what is not known of an experiment. The figures are weft/study/net's.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/study/net/scale_rows.h"

#include "cli/flag_values.h"
#include "cli/sim/net.h"

namespace weft::cli::sim {
namespace {

struct ScaleFlags {
  std::string workload;
  NetworkFlags network;
  netsim::StepRequest step;
  int from = 8, to = 1024;
  netsim::Varied varied;
  bool json = false;
};

int run_scale(const ScaleFlags& flags) {
  netsim::Setting setting;
  setting.workload = load_workload(flags.workload);
  setting.training = training_of(setting.workload, flags.step);
  setting.options = training_options(flags.step);
  setting.topology = load_network(flags.network);
  if (setting.topology.num_ranks != setting.training.ranks())
    setting.topology = resized(setting.topology, setting.training.ranks());
  const auto slow = [&](Topology* topology) { slow_down(flags.network, topology); };
  const bool varies = flags.varied.rates || flags.varied.unknowns;
  const auto rows =
      varies ? rows_varied(setting, flags.varied, slow) : rows_over_ranks(setting, flags.from, flags.to, slow);
  fmt::print("{}", flags.json ? scale_json(flags.workload, setting.topology.name, rows) : scale_text(rows));
  return 0;
}

}  // namespace

void add_scale(CLI::App* command, Run* chosen) {
  auto* scale = command->add_subcommand("scale", "a training step on more and more ranks: bulk, in panels, fused");
  auto flags = std::make_shared<ScaleFlags>();
  scale->add_option("workload", flags->workload, "a name of workloads/, or a file")->type_name("WORKLOAD")->required();
  add_network_flags(scale, &flags->network);
  scale->add_option("--cluster", flags->step.cluster, "a rank's rates")->type_name("FILE");
  scale->add_option("--chip", flags->step.chip, "a rank's rates")->type_name("NAME|FILE");
  add_number(*scale, "--from", &flags->from, "the fewest ranks (8)", 2);
  add_number(*scale, "--to", &flags->to, "the most, doubled from --from (1024)", 2);
  scale->add_flag("--sensitivity", flags->varied.rates, "the workload's own ranks, every free parameter 20 % off");
  scale->add_flag("--band", flags->varied.unknowns,
                  "dlrm: the workload's own ranks, over what is not known of the experiment");
  add_step_flags(scale, &flags->step);
  scale->add_flag("--json", flags->json, "one JSON object on standard output");
  scale->footer(
      "Example:\n  weft sim scale llama-2-70b --network rails-128x8 --chip h200-like --from 64\n"
      "  weft sim scale dlrm-128 --network torus-16x8 --cluster clusters/mi210-128.json --fused-factor 1.125 --band");
  scale->callback([=] { *chosen = [flags] { return run_scale(*flags); }; });
}

}  // namespace weft::cli::sim
