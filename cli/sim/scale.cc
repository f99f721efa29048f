// `weft sim scale WORKLOAD --network NAME|FILE`: a training step on 8 to 1024 ranks, how much each rate matters, and
// the band over what is not known of an experiment. The figures are weft/sim/step's.
#include "weft/sim/step/scale.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"

#include "cli/flag_values.h"
#include "cli/sim/net.h"
#include "cli/sim/step.h"

namespace weft::cli::sim {
namespace {

using netsim::Setting;
using netsim::Styles;

struct ScaleFlags {
  std::string workload;
  NetworkFlags network;
  StepFlags step;
  int from = 8, to = 1024;
  bool sensitivity = false, band = false, json = false;
};

struct Row {
  std::string what;
  Styles styles;
};

std::vector<Row> rows_over_ranks(const Setting& whole, const ScaleFlags& flags) {
  if (flags.from < 2 || flags.to < flags.from)
    bad_input("--from {} --to {} ranks; use 2 or more, the smaller first", flags.from, flags.to);
  std::vector<Row> out;
  for (int ranks = flags.from; ranks <= flags.to; ranks *= 2) {
    Setting one = at_ranks(whole, ranks);
    slow_down(flags.network, &one.topology);
    out.push_back({fmt::format("{} ranks", ranks), run_styles(one)});
  }
  return out;
}

// The setting itself, then what is said to vary.
std::vector<Row> varied(Setting whole, const ScaleFlags& flags) {
  slow_down(flags.network, &whole.topology);
  std::vector<Row> out{{"as given", run_styles(whole)}};
  if (flags.sensitivity)
    for (const netsim::Variation& one : free_parameters(whole, 0.2)) out.push_back({one.what, run_styles(one.setting)});
  if (flags.band)
    for (const netsim::Variation& one : unknowns_of_dlrm(whole)) out.push_back({one.what, run_styles(one.setting)});
  return out;
}

void print_rows(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> table{
      {"setting", "computing", "bulk", "panels", "fused forward", "fused both", "saved", "simulated ranks"}};
  for (const Row& row : rows)
    table.push_back({row.what, format_duration(row.styles.compute_s), format_duration(row.styles.bulk_s),
                     format_duration(row.styles.panels_s), format_duration(row.styles.forward_s),
                     format_duration(row.styles.both_s),
                     fmt::format("{:.1f} %", 100 * (1 - row.styles.both_s / row.styles.bulk_s)),
                     fmt::format("{} of {}", row.styles.simulated, row.styles.ranks)});
  fmt::print("{}", draw::aligned(table, draw::Last::number));
  double least = 1, most = -1;
  for (const Row& row : rows) {
    const double saved = 1 - row.styles.both_s / row.styles.bulk_s;
    least = std::min(least, saved), most = std::max(most, saved);
  }
  fmt::print("\nfused both ways saves {:.1f} % to {:.1f} % of a bulk step\n", 100 * least, 100 * most);
}

void print_rows_json(const ScaleFlags& flags, const Setting& setting, const std::vector<Row>& rows) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Row& row : rows)
    list.push_back({{"what", row.what},
                    {"ranks", row.styles.ranks},
                    {"simulated_ranks", row.styles.simulated},
                    {"compute_us", row.styles.compute_s * 1e6},
                    {"time_us", row.styles.bulk_s * 1e6},
                    {"exposed_us", (row.styles.bulk_s - row.styles.compute_s) * 1e6},
                    {"panels_us", row.styles.panels_s * 1e6},
                    {"fused_forward_us", row.styles.forward_s * 1e6},
                    {"fused_us", row.styles.both_s * 1e6}});
  const Json out{{"workload", flags.workload}, {"network", setting.topology.name}, {"rows", list}};
  fmt::print("{}", json_line(out));
}

int run_scale(const ScaleFlags& flags) {
  Setting setting;
  setting.workload = load_workload(flags.workload);
  setting.training = training_of(setting.workload, flags.step);
  setting.options = options_of(flags.step);
  setting.topology = load_network(flags.network);
  const bool varies = flags.sensitivity || flags.band;
  if (setting.topology.num_ranks != setting.training.ranks())
    setting.topology = resized(setting.topology, setting.training.ranks());
  const std::vector<Row> rows = varies ? varied(setting, flags) : rows_over_ranks(setting, flags);
  if (flags.json)
    print_rows_json(flags, setting, rows);
  else
    print_rows(rows);
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
  scale->add_flag("--sensitivity", flags->sensitivity, "the workload's own ranks, every free parameter 20 % off");
  scale->add_flag("--band", flags->band, "dlrm: the workload's own ranks, over what is not known of the experiment");
  add_step_flags(scale, &flags->step);
  scale->add_flag("--json", flags->json, "one JSON object on standard output");
  scale->footer(
      "Example:\n  weft sim scale llama-2-70b --network rails-128x8 --chip h200-like --from 64\n"
      "  weft sim scale dlrm-128 --network torus-16x8 --cluster clusters/mi210-128.json --fused-factor 1.125 --band");
  scale->callback([=] { *chosen = [flags] { return run_scale(*flags); }; });
}

}  // namespace weft::cli::sim
