// `weft plan`: builds or loads a plan, prints it, proves it, and says what it moves and what it should cost.
#include <chrono>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/cluster/find_cluster.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/program.h"
#include "weft/plan/text/print.h"
#include "weft/plan/text/save.h"
#include "weft/study/input/inputs.h"
#include "weft/study/proof.h"

#include "cli/command.h"
#include "cli/op_flags.h"
#include "cli/out_file.h"

namespace weft::cli {
namespace plan {
namespace {

// A plan of N ranks has N x N actions; this many are proved in seconds.
constexpr int kMaxPlanRanks = 1024;

struct Flags {
  OpRequest op;
  std::string cluster, save, load;
  double budget = 1;
  bool json = false;
};

struct Report {
  Plan plan;
  double build_ms = 0, verify_ms = 0;
  Verdict verdict;
  std::int64_t steps = 0, triggers = 0;  // of all ranks
  Traffic traffic;
  std::optional<Estimate> estimate;  // none where the plan is refused
};

void count_actions(Report* report) {
  const Expander expander(report->plan);
  Program program;
  for (int rank = 0; rank < report->plan.num_ranks; ++rank) {
    expander.program(rank, &program);
    for (const Action& action : program.actions) ++(action.kind == ActionKind::step ? report->steps : report->triggers);
    report->traffic += traffic(report->plan, program);
  }
}

Report examine(const Flags& flags) {
  if (flags.load.empty() == flags.op.op.empty())
    bad_input("{}", flags.load.empty() ? "no op to plan; give one, as in `weft plan gemm-rs`, or --load FILE"
                                       : "both an op and --load are given; leave one out");
  if (!flags.load.empty() && !flags.op.given.empty())
    bad_input("{} is for a plan that is built, and --load {} has its own; leave it out", flags.op.given.front().first,
              flags.load);
  Report report;
  Cluster cluster = flags.cluster.empty() ? find_cluster() : load_cluster(flags.cluster);
  EstimateHint hint;
  const auto start = std::chrono::steady_clock::now();
  if (flags.load.empty()) {
    const OpSpec spec = parse_op(flags.op, plan::kMaxPlanRanks);
    cluster = laid_out(cluster, spec);
    report.plan = build(spec, cluster);
    hint = hint_of(spec);
  } else {
    report.plan = load_plan(flags.load, {flags.budget});
  }
  report.build_ms = milliseconds_since(start);
  const TimedVerdict proof = timed_verify(report.plan, {flags.budget, true});
  report.verdict = proof.verdict;
  report.verify_ms = proof.ms;
  if (!report.verdict.ok()) return report;
  count_actions(&report);
  report.estimate = estimate(report.plan, cluster, hint);
  return report;
}

void print_json(const Report& r) {
  nlohmann::ordered_json out{{"ok", r.verdict.ok()},
                             {"name", r.plan.name},
                             {"ranks", r.plan.num_ranks},
                             {"steps", nullptr},
                             {"triggers", nullptr},
                             {"tiles", r.verdict.tiles},
                             {"bytes_moved", nullptr},
                             {"signals_sent", nullptr},
                             {"estimate_us", nullptr},
                             {"compute_us", nullptr},
                             {"comm_us", nullptr},
                             {"why", r.plan.why},
                             {"problems", r.verdict.problems},
                             {"build_ms", r.build_ms},
                             {"verify_ms", r.verify_ms},
                             {"budget_used", r.verdict.budget},
                             {"one_by_one", r.verdict.one_by_one.size()}};
  if (r.estimate) {
    out["steps"] = r.steps;
    out["triggers"] = r.triggers;
    out["bytes_moved"] = r.traffic.bytes_to_peers;
    out["signals_sent"] = r.traffic.signals_to_peers;
    out["estimate_us"] = r.estimate->seconds * 1e6;
    out["compute_us"] = r.estimate->compute_seconds * 1e6;
    out["comm_us"] = r.estimate->comm_seconds * 1e6;
  }
  fmt::print("{}", json_line(out));
}

void print_lane_order(const Report& r) {
  if (r.verdict.one_by_one.empty()) return fmt::print("lanes of an action may run in any order\n");
  const ActionOf& first = r.verdict.one_by_one.front();
  const std::string name =
      describe(r.plan, Expander(r.plan).program(first.rank), static_cast<std::size_t>(first.action));
  fmt::print("lanes of an action may run in any order; those of {}{} may have to go one by one\n", name,
             r.verdict.one_by_one.size() > 1 ? fmt::format(" and {} more", r.verdict.one_by_one.size() - 1) : "");
}

void print_text(const Report& r) {
  try {
    fmt::print("{}\n", print(r.plan));
  } catch (const Error& error) {  // a refused plan may be too broken to print
    if (r.verdict.ok()) throw;
    fmt::print(stderr, "weft: the plan cannot be printed: {}\n", error.what());
  }
  if (!r.verdict.ok()) {
    fmt::print("refused: plan \"{}\" cannot run\n", r.plan.name);
    for (const std::string& problem : r.verdict.problems) fmt::print("  {}\n", problem);
    return;
  }
  fmt::print("proved in {:.3g} ms: {} actions, {} tiles\n", r.verify_ms, r.verdict.actions, r.verdict.tiles);
  print_lane_order(r);
  fmt::print("moves {} and {} signals between ranks in a run\n", format_bytes(r.traffic.bytes_to_peers),
             r.traffic.signals_to_peers);
  fmt::print("estimate {}: compute alone {}, links alone {}\n", format_duration(r.estimate->seconds),
             format_duration(r.estimate->compute_seconds), format_duration(r.estimate->comm_seconds));
}

int run(const Flags& flags) {
  const Report report = examine(flags);
  if (!flags.save.empty()) save_plan(report.plan, flags.save);
  if (flags.json)
    print_json(report);
  else
    print_text(report);
  return report.verdict.ok() ? 0 : flags.load.empty() ? 1 : 2;  // a file that is wrong is bad input
}

}  // namespace
}  // namespace plan

void add_plan(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("plan", "print a plan, prove it, say what it moves and why this route");
  auto flags = std::make_shared<plan::Flags>();
  command
      ->add_option("op", flags->op.op,
                   "gemm-rs, gemm-ar, gemv-ar, gemm-a2a, embedding-a2a, ag-gemm, rs, ar, ag, a2a, bcast, ...")
      ->type_name("OP");
  add_op_flags(*command, &flags->op, plan::kMaxPlanRanks);
  command
      ->add_option("--cluster", flags->cluster,
                   "price routes on this cluster (clusters/*.json; else WEFT_CLUSTER, else as calibrated)")
      ->type_name("FILE");
  add_out_file(*command, "--save", &flags->save, "write the plan as JSON");
  command->add_option("--load", flags->load, "read a plan instead of building one")->type_name("FILE");
  add_number(*command, "--budget", &flags->budget,
             "allow N times the usual cost of reading and proving, which is 5 s and 1 GB on a slow machine")
      ->type_name("N");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft plan gemm-rs --ranks 4 --m 4096 --n 4096 --k 1024\n"
      "  weft plan gemm-ar --ranks 8 --save plan.json && weft plan --load plan.json\n"
      "  weft plan --load large.json --budget 8");
  command->callback([=] { *chosen = [flags] { return plan::run(*flags); }; });
}

}  // namespace weft::cli
