// `weft reshard plan` and `weft reshard run`: flags and help. What they move is read by reshard_spec.h.
#include "cli/reshard/reshard.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/os/new_file.h"
#include "weft/plan/text/save.h"
#include "weft/study/reshard/nic_gantt.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/reshard/plan_report.h"

namespace weft::cli::reshard {
namespace {

void save(const std::optional<ProvedReshard>& proof, const PlannedReshard& planned, const std::string& path) {
  if (!proof)
    bad_input("--save {}: {} chunks are too many for one plan; use --scale or --small", path,
              planned.schedule.chunks.size());
  save_plan(proof->plan, path);
}

void add_plan_command(CLI::App& reshard, Run* chosen) {
  auto* command = reshard.add_subcommand("plan", "who sends what when: makespan beside a proved bound, drawn per NIC");
  auto flags = std::make_shared<Flags>();
  add_flags(*command, flags.get());
  command->add_option("--link", flags->link, fmt::format("one NIC per host of RATE[,LATENCY] ({})", kDefaultNic))
      ->type_name("LINK");
  add_out_file(*command, "--svg", &flags->svg, "draw the schedule into this file");
  add_out_file(*command, "--save", &flags->save, "write the plan as JSON, as `weft plan --load` reads it");
  command->footer(
      "Example:\n  weft reshard plan --shape 1024,1024,512 --src 2x4 --dst 2x4 --src-spec R,S0,R --dst-spec S0,R,R\n"
      "  weft reshard plan --case 4 --compare\n"
      "  weft reshard plan --tensors llama-2-70b --svg schedule.svg\n"
      "  weft reshard plan --shape 4096,4096 --src dp=2,tp=4 --dst tp=8@2 --src-spec \"S(tp),R\" --dst-spec "
      "\"R,S(tp)\" --overlap");
  command->callback([=] { *chosen = [flags] { return plan(*flags); }; });
}

void add_run_command(CLI::App& reshard, Run* chosen) {
  auto* command = reshard.add_subcommand("run", "move the tensors for real, check every element, report the rate");
  auto flags = std::make_shared<RunFlags>();
  add_flags(*command, &flags->reshard);
  command
      ->add_option("--link", flags->reshard.link,
                   "between hosts: shm (memory), or RATE[,LATENCY] to pace every host's NIC to, as 10gbit,10us")
      ->type_name("LINK");
  add_number(*command, "--rounds", &flags->rounds, "rounds; times are medians over them (5)")->type_name("K");
  add_threads_flag(*command, &flags->ranks);
  add_transport_flag(*command, &flags->ranks);
  add_trace_flag(*command, &flags->ranks);
  command->add_flag("--spoil", flags->spoil)->group("");  // hidden
  command->footer(
      "Example:\n  weft reshard run --case 3 --size 64MB --link 1gbit,10us\n"
      "  weft reshard run --shape 16,1024,1024 --src 1x1 --dst 2x2 --src-spec R,R,R --dst-spec R,R,R --link 1gbit "
      "--compare\n"
      "  weft reshard run --tensors llama-2-70b --small\n"
      "  weft cluster run -n 16 -- weft reshard run --case 3 --size 64MB");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace

int plan(const Flags& flags) {
  const Spec spec = parse_reshard(flags);
  if (flags.compare) {
    if (!flags.svg.empty() || !flags.save.empty()) bad_input("--svg and --save take one schedule; leave out --compare");
    const auto rows = compare_plans(spec);
    fmt::print("{}", flags.json ? compare_json(spec, rows) : compare_text(spec, rows));
    return std::all_of(rows.begin(), rows.end(), [](const ComparedRow& r) { return r.planned.problems.empty(); }) ? 0
                                                                                                                  : 1;
  }
  const PlannedReshard planned = plan_reshard(spec.reshard, spec.network, spec.options);
  const auto proof = prove_reshard(spec.reshard, spec.network, spec.options, planned);
  if (!flags.save.empty()) save(proof, planned, flags.save);
  if (!flags.svg.empty()) write_file(flags.svg, gantt_svg(spec, planned.tasks, planned.schedule));
  fmt::print("{}", flags.json ? plan_json(spec, planned, proof) : plan_text(spec, planned, proof));
  return planned.problems.empty() && (!proof || proof->verdict.ok()) ? 0 : 1;
}

}  // namespace weft::cli::reshard

namespace weft::cli {

void add_reshard(CLI::App& app, Run* chosen) {
  auto* command =
      app.add_subcommand("reshard", "move sharded tensors between meshes: planned to the bound, run at line rate");
  command->require_subcommand(1);
  command->footer(
      "Example:\n  weft reshard plan --case 3\n  weft reshard run --case 3 --size 64MB --link 1gbit,10us\n"
      "Both take --json and --help.");
  reshard::add_plan_command(*command, chosen);
  reshard::add_run_command(*command, chosen);
}

}  // namespace weft::cli
