// `weft sim`: models on hardware that nobody has yet. `t3` is track-and-trigger hardware, sub-layer by sub-layer, from
// the plans that executors run; `sweep` maps where it pays; `net` (net.cc) runs plans on a network.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/sim/chip/chip.h"
#include "weft/study/sim/fit.h"
#include "weft/study/sim/pictures.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/sim/net.h"
#include "cli/sim/report.h"

namespace weft::cli::sim {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string model = "t-nlg", layer = "fc2", config = "t3-mca", chip = "t3-paper", trace, svg;
  int tp = 8;
  std::vector<std::string> set;
  bool table = false, band = false, sensitivity = false, beyond = false, json = false;
};

Chip chip_of(const Flags& flags) {
  Chip chip = load_chip(flags.chip);
  for (const std::string& one : flags.set) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos)
      bad_input("--set {} is no KEY=NUMBER; give base units, as --set link_rate=150e9", one);
    set_knob(&chip, one.substr(0, equals), read_finite("--set " + one.substr(0, equals), one.substr(equals + 1)));
  }
  return chip;
}

std::vector<SimCase> cases_of(const Flags& flags) {
  const Workload workload = load_workload(flags.model);
  if (workload.kind != WorkloadKind::transformer)
    bad_input("--model {} is no transformer, whose sub-layers are summed; use mega-gpt-2, t-nlg, gpt-3, palm or mt-nlg",
              flags.model);
  std::vector<SimCase> all = summed_layers(workload, flags.tp);
  if (flags.layer == "all") return all;
  std::string wanted = flags.layer, names;
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  for (const SimCase& one : all) {
    if (one.layer.name == wanted || one.layer.name == wanted + "_bwd") return {one};
    names += one.layer.name + ", ";
  }
  bad_input("--layer {} is not summed over the devices; use one of {}all", flags.layer, names);
}

void check(const Flags& flags) {
  if (flags.tp < 2 || flags.tp > 1024) bad_input("--tp is {}; use 2 to 1024 devices", flags.tp);
  if (!flags.trace.empty() && (flags.table || flags.layer == "all"))
    bad_input("--trace is of one sub-layer; name it with --layer and leave out --table");
}

void draw_table(const Flags& flags, Simulator& simulator) {
  const std::filesystem::path folder(flags.svg);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    bad_input("--svg {} is no folder; name one that is there: several pictures go into it", flags.svg);
  SimCase busy;
  for (const SimCase& one : predicted_cases())
    if (one.tp == 8 && one.layer.name == "fc2") busy = one;
  write_file(folder / "t3_speedups.svg", speedups_svg(simulator));
  write_file(folder / "t3_traffic.svg", traffic_svg(simulator));
  write_file(folder / "t3_over_time.svg", over_time_svg(simulator, busy, Config::t3));
  write_file(folder / "t3_mca_over_time.svg", over_time_svg(simulator, busy, Config::t3_mca));
  write_file(folder / "t3_band.svg", band_svg(t3_band(simulator.chip())));
}

Json everything(const Flags& flags, Simulator& simulator) {
  std::vector<SimCase> cases = paper_cases();
  for (SimCase& one : large_cases()) cases.push_back(std::move(one));
  Json out{{"chip", simulator.chip().name},
           {"cases", cases_json(simulator, cases, {kConfigs.begin(), kConfigs.end()})},
           {"paper", paper_json(simulator)},
           {"scatter_alone", scatter_json(scatter_alone(simulator.chip()))}};
  if (flags.band) out["band"] = band_json(t3_band(simulator.chip()));
  if (flags.sensitivity) out["sensitivity"] = sensitivity_json(simulator, sensitivities(simulator.chip()));
  if (flags.beyond) out["beyond"] = beyond_json(simulator);
  return out;
}

void print_table(const Flags& flags, Simulator& simulator) {
  const std::vector<Config> configs(kPaperConfigs.begin(), kPaperConfigs.end());
  fmt::print("Chip {}. Speedups over sequential.\n{}\n{}", simulator.chip().name,
             cases_text(simulator, paper_cases(), configs), paper_text(simulator));
  if (flags.beyond) {
    fmt::print("\nPredicted, on 32 devices:\n{}", cases_text(simulator, large_cases(), configs));
    fmt::print("\nReduce-scatter alone:\n{}", scatter_text(scatter_alone(simulator.chip())));
    fmt::print("\nGather fused into the next product, all-to-all, generation and whole models: --beyond --json\n");
  }
  if (flags.band) fmt::print("\n{}", band_text(t3_band(simulator.chip())));
  if (flags.sensitivity) fmt::print("\n{}", sensitivity_text(simulator, sensitivities(simulator.chip())));
}

int run_table(const Flags& flags) {
  Simulator simulator(chip_of(flags));
  if (!flags.svg.empty()) draw_table(flags, simulator);
  if (flags.json)
    fmt::print("{}", json_line(everything(flags, simulator)));
  else
    print_table(flags, simulator);
  return 0;
}

int run_t3(const Flags& flags) {
  check(flags);
  if (flags.table || flags.band || flags.sensitivity || flags.beyond) return run_table(flags);
  Simulator simulator(chip_of(flags));
  const std::vector<SimCase> cases = cases_of(flags);
  const Config config = parse_config(flags.config);
  if (!flags.trace.empty())
    write_file(flags.trace, slices_trace(simulator.fused(cases.front(), config, 0, true),
                                         fmt::format("device: {} {} {}", cases.front().model, cases.front().layer.name,
                                                     to_string(config))));
  if (!flags.svg.empty()) write_file(flags.svg, over_time_svg(simulator, cases.front(), config));
  if (flags.json) {
    const Json out{{"chip", simulator.chip().name},
                   {"cases", cases_json(simulator, cases, {Config::sequential, config})}};
    fmt::print("{}", json_line(out));
    return 0;
  }
  for (const SimCase& one : cases) fmt::print("{}", one_case_text(simulator, one, config));
  return 0;
}

int run_sweep(const Flags& flags) {
  check(flags);
  const Sweep made = sweep(chip_of(flags), cases_of(flags).front());
  if (!flags.svg.empty()) write_file(flags.svg, sweep_svg(made, flags.chip));
  if (flags.json)
    fmt::print("{}", json_line(sweep_json(made)));
  else
    fmt::print("{}", sweep_text(made));
  return 0;
}

int run_fit(const Flags& flags) {
  const Chip fitted = fitted_chip(chip_of(flags), [](const FitStep& step) {
    const SimSummary& s = step.seen;
    fmt::print(stderr,
               "{:<32} cost {:6.2f}  ideal {:.1f}  t3-mca {:.1f}  t3 {:.1f}  nmc {:.1f} / {:.1f}  reads {:.2f}\n",
               step.key.empty() ? "start" : fmt::format("{} = {:.4g}", step.key, step.value), step.cost,
               s.ideal.geomean, s.t3_mca.geomean, s.t3.geomean, s.nmc_8, s.nmc_16, s.gemm_reads);
  });
  Json values;
  for (const Knob& one : knobs())
    if (one.free) values[std::string(one.key)] = knob(fitted, one.key);
  if (flags.json) {
    fmt::print("{}", json_line(Json{{"chip", fitted.name}, {"parameters", values}}));
    return 0;
  }
  for (const auto& [key, value] : values.items()) fmt::print("{:<20} {:.4g}\n", key, value.get<double>());
  return 0;
}

void add_case_flags(CLI::App* command, Flags* flags) {
  command->add_option("--model", flags->model, "a transformer of workloads/, or a file (t-nlg)")
      ->type_name("NAME|FILE");
  add_number(*command, "--tp", &flags->tp, "devices that share the model (8)")->type_name("N");
  command->add_option("--layer", flags->layer, "op, fc2, fc1 or ip (the last two backward), or all (fc2)")
      ->type_name("L");
  std::string names;
  for (const std::string& name : chip_names()) names += (names.empty() ? "" : ", ") + name;
  command->add_option("--chip", flags->chip, fmt::format("{}, or a file (t3-paper)", names))->type_name("NAME|FILE");
  command->add_option("--set", flags->set, "change a parameter of the chip, in base units")->type_name("KEY=NUMBER");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
}

void add_t3(CLI::App* command, Run* chosen) {
  auto* t3 = command->add_subcommand("t3", "track-and-trigger hardware: products fused with their reduce-scatter");
  auto flags = std::make_shared<Flags>();
  add_case_flags(t3, flags.get());
  t3->add_option("--config", flags->config,
                 "sequential, t3, t3-fifo, t3-mca, ideal-overlap, ideal-nmc, copy-engine, fused-cu or direct (t3-mca)")
      ->type_name("NAME");
  auto* table = t3->add_flag("--table", flags->table, "the paper's 16 cases and figures, paper and ours");
  for (const char* flag : {"--model", "--tp", "--layer", "--config"}) table->excludes(t3->get_option(flag));
  t3->add_flag("--band", flags->band, "with the table: plain T3 over switch cost and grant");
  t3->add_flag("--sensitivity", flags->sensitivity, "with the table: every free parameter 20 % lower and higher");
  t3->add_flag("--beyond", flags->beyond, "with the table: models on 32 devices, and what the paper did not measure");
  add_out_file(*t3, "--trace", &flags->trace, "a timeline of one sub-layer, for ui.perfetto.dev");
  t3->add_option("--svg", flags->svg, "traffic over time; with --table a folder for all pictures")->type_name("FILE");
  t3->footer(
      "Example:\n  weft sim t3 --model t-nlg --tp 8 --layer fc2 --config t3-mca\n  weft sim t3 --table\n"
      "  weft sim t3 --table --chip h200-like --json");
  t3->callback([=] { *chosen = [flags] { return run_t3(*flags); }; });
}

void add_fit(CLI::App* command, Run* chosen) {
  auto* fit = command->add_subcommand("fit", "search the free parameters again, on Mega-GPT-2's eight cases alone");
  auto flags = std::make_shared<Flags>();
  fit->add_option("--chip", flags->chip, "where to begin (t3-paper)")->type_name("NAME|FILE");
  fit->add_option("--set", flags->set, "change a parameter of the chip, in base units")->type_name("KEY=NUMBER");
  fit->add_flag("--json", flags->json, "one JSON object on standard output");
  fit->footer("Example:\n  weft sim fit --set gemm_efficiency=0.8");
  fit->callback([=] { *chosen = [flags] { return run_fit(*flags); }; });
}

void add_sweep(CLI::App* command, Run* chosen) {
  auto* map = command->add_subcommand("sweep", "link rate x CUs: where T3, copy engines or nothing pays");
  auto flags = std::make_shared<Flags>();
  add_case_flags(map, flags.get());
  add_out_file(*map, "--svg", &flags->svg, "the map as a picture");
  map->footer("Example:\n  weft sim sweep --model t-nlg --tp 8 --layer fc2 --svg sweep.svg");
  map->callback([=] { *chosen = [flags] { return run_sweep(*flags); }; });
}

}  // namespace
}  // namespace weft::cli::sim

void weft::cli::add_sim(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("sim", "simulate hardware that does not exist yet, from the same plans");
  command->footer(
      "Example:\n  weft sim t3 --table\n  weft sim t3 --model t-nlg --tp 8 --layer fc2 --config t3-mca --json\n"
      "  weft sim net plan.json --network torus-16x8\n  weft sim SUBCOMMAND --help");
  command->require_subcommand(1);
  sim::add_t3(command, chosen);
  sim::add_fit(command, chosen);
  sim::add_sweep(command, chosen);
  sim::add_net(command, chosen);
  sim::add_scale(command, chosen);
}
