// `weft demo`: the whole idea on one screen. A gemm fused with a reduce-scatter is planned, proved, run on local ranks,
// checked and timed against doing one after the other.
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/cores.h"
#include "weft/base/units.h"
#include "weft/cluster/cluster.h"
#include "weft/plan/price/traffic.h"
#include "weft/study/measure.h"
#include "weft/study/proof.h"
#include "weft/study/report/measured.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/command.h"
#include "cli/op_flags.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace demo {
namespace {

constexpr int kRounds = 15;

int default_ranks() { return own_cores().size() >= 4 ? 4 : 2; }

OpRequest demo_op(int ranks) {
  OpRequest flags;
  flags.op = "gemm-rs";
  flags.ranks = ranks;
  flags.m = 2048, flags.n = 2048, flags.k = 256;
  return flags;
}

void print_plan(const OpSpec& spec) {
  const Plan plan = build(spec, default_cluster(spec.ranks));
  const auto [verdict, ms] = timed_verify(plan);
  const Traffic total = traffic(plan).total;
  const Producer& p = spec.producer;
  fmt::print("Weft {}: communication hidden behind computation\n\n", WEFT_VERSION);
  fmt::print("  what   every one of {} ranks multiplies x ({} x {}) by w ({} x {}); the products are\n", spec.ranks,
             p.m, p.k, p.k, p.n);
  fmt::print("         summed over the ranks, and each rank keeps its {} rows\n", p.m / spec.ranks);
  fmt::print("  plan   \"{}\": {} actions, {} tiles; {} and {} signals cross between ranks\n", plan.name,
             verdict.actions, verdict.tiles, format_bytes(total.bytes_to_peers), total.signals_to_peers);
  fmt::print("  why    {}\n", plan.why);
  fmt::print("  proof  {:.2g} ms: each sum complete and in one order, no deadlock, no race, no barrier\n", ms);
  fmt::print("  run    {} processes over shared memory, {} rounds ...\n\n", spec.ranks, kRounds);
  std::fflush(stdout);
}

void print_result(const Measurement& m) {
  fmt::print("{}\n{}", time_table(m), verdict_sentence(m));
  fmt::print("Checked against float64 on a sample of elements, every round (largest error {:.1e}).\n\n", m.max_rel_err);
  fmt::print("Try next:\n");
  fmt::print("  build/weft ledger                          a whole model on links that cost something\n");
  fmt::print("  build/weft generate --model models/weft-16 --ranks 2 --prompt 'The kernel'   text, tensor-parallel\n");
  fmt::print("  build/weft plan gemm-rs --ranks 4          the plan, rule by rule\n");
  fmt::print("  build/weft bench gemm-ar --ranks 2         another op; also ag-gemm, embedding-a2a, ...\n");
  fmt::print(
      "  build/weft cluster up --hosts 2 --pin      virtual hosts with real links (root); then, between them:\n");
  fmt::print("  build/weft cluster run -n 2 -- build/weft bench gemm-rs\n");
  fmt::print("  build/weft reshard plan --case 3           sharded tensors from one mesh to another, drawn per NIC\n");
  fmt::print("  build/weft sim t3 --table                  what hardware that tracks tiles would buy, simulated\n");
  fmt::print("  build/weft info --calibrate                what this machine can do\n");
}

int run(const RankFlags& flags, bool json) {
  const auto before = [&] {
    const OpSpec spec = parse_op(demo_op(num_ranks(flags.count)), kMaxLocalRanks);
    if (!json && !launched()) print_plan(spec);
  };
  const auto body = [&](World& world) {
    const OpSpec spec = parse_op(demo_op(world.size()), kMaxLocalRanks);
    const Measurement m = measure(world, spec, {.rounds = kRounds});
    if (world.rank() == 0 && json) fmt::print("{}", json_report(spec, {world.size(), 1}, m));
    if (world.rank() == 0 && !json) print_result(m);
    return 0;
  };
  return on_ranks(flags, body, {.before = before});
}

}  // namespace
}  // namespace demo

void add_demo(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("demo", "plan, prove, run and time one fused op, in seconds");
  struct Flags {
    RankFlags ranks{.count = demo::default_ranks()};
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  add_ranks_flag(*command, &flags->ranks,
                 fmt::format("ranks, 1 to {} (2, or 4 where there are 4 cores)", kMaxLocalRanks));
  command->add_flag("--json", flags->json, "one JSON object on standard output, as from `weft bench`");
  command->footer("Example:\n  weft demo");
  command->callback([=] { *chosen = [flags] { return demo::run(flags->ranks, flags->json); }; });
}

}  // namespace weft::cli
