// `weft bench OP`: flags, refusals, and who does what. The command starts itself again as ranks (or threads);
// rank 0 prints what bench_measure.h found.
#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/cluster/cluster.h"
#include "weft/exec/layout.h"
#include "weft/plan/program.h"
#include "weft/transport/memory.h"
#include "weft/transport/rendezvous.h"
#include "weft/transport/shm.h"
#include "weft/world/world.h"

#include "cli/bench_inputs.h"
#include "cli/bench_measure.h"
#include "cli/bench_report.h"
#include "cli/bench_variants.h"
#include "cli/command.h"
#include "cli/ops.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace {

struct Flags {
  OpFlags op;
  int threads = 1, rounds = 15;
  std::string transport = "shm", link = "shm", trace;
  bool json = false;
};

double op_bytes(const OpSpec& spec) {
  const Plan plan = build(spec, default_cluster(spec.ranks));
  return static_cast<double>(layout_of(plan, Expander(plan), 0).bytes);
}

void check_fits(const OpSpec& spec, double bytes_of_a_rank) {
  const double bytes = bytes_of_a_rank * spec.ranks;
  const auto free = static_cast<double>(available_memory_bytes());
  if (bytes > 0.9 * free)
    fail(Code::no_memory, "{} ranks of {} {} need {}, and {} are free; use smaller shapes or fewer ranks", spec.ranks,
         spec.name, shape_text(spec), format_bytes(bytes), format_bytes(free));
}

// Refused here, before anything is touched: asking the kernel for too much brings its killer, not an error.
void check_memory(const OpSpec& spec) {
  double bytes = RankInputs::bytes(spec);
  const Producer& p = spec.producer;
  check_fits(spec, bytes + static_cast<double>(p.m) * static_cast<double>(p.n) * 4);  // what any plan takes
  bytes += op_bytes(spec);
  if (!spec.alone()) bytes += op_bytes(producer_alone(spec));
  if (has_collective(spec)) {
    const OpSpec collective = collective_alone(spec);
    bytes += RankInputs::bytes(collective) + 2 * op_bytes(collective) +
             std::min(one_shot_bytes(collective), kMaxOneShotBytes);
  }
  check_fits(spec, bytes);
}

void check_flags(const Flags& flags) {
  if (flags.threads < 1 || flags.threads > 256) bad_input("--threads is {}; use 1 to 256", flags.threads);
  if (flags.rounds < 1 || flags.rounds > 100'000) bad_input("--rounds is {}; use 1 to 100000", flags.rounds);
  if (flags.transport != "shm" && flags.transport != "threads")
    bad_input("unknown transport \"{}\"; use shm or threads", flags.transport);
  parse_link(flags.link);  // says so where it is no link
}

void bench_rank(World& world, const Flags& flags) {
  OpFlags op = flags.op;
  op.ranks = world.size();
  const OpSpec spec = parse_op(op, kMaxLocalRanks);
  const Measurement m = measure(world, spec, {.rounds = flags.rounds, .threads = flags.threads});
  if (world.rank() != 0) return;
  const ReportContext context{world.size(), flags.threads};
  fmt::print("{}", flags.json ? json_report(spec, context, m) : text_report(spec, context, m));
}

WorldOptions options_of(const Flags& flags) {
  WorldOptions options{.threads = flags.threads};
  if (flags.link != "shm") options.link = parse_link(flags.link);
  options.trace = flags.trace;
  return options;
}

int run(const Flags& flags) {
  check_flags(flags);
  if (launched()) {
    World world = World::init(0, nullptr, options_of(flags));
    bench_rank(world, flags);
    return 0;
  }
  const OpSpec spec = parse_op(flags.op, kMaxLocalRanks);
  check_memory(spec);
  if (flags.transport == "shm") return relaunch(spec.ranks);
  World::local(
      spec.ranks, [&](World& world) { bench_rank(world, flags); }, options_of(flags));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("bench", "measure an op on local ranks: compute, collective, sequential, fused");
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("op", flags->op.op,
                   "gemm-rs, gemm-ar, gemv-ar, gemm-a2a, embedding-a2a, ag-gemm, rs, ar, ag, a2a, bcast, ...")
      ->required()
      ->type_name("OP");
  add_op_flags(*command, &flags->op, kMaxLocalRanks);
  command->add_option("--threads", flags->threads, "threads of each rank (1)")->type_name("T");
  command->add_option("--rounds", flags->rounds, "rounds; every figure is a median over them (15)")->type_name("K");
  command->add_option("--transport", flags->transport, "shm: ranks are processes; or threads")->type_name("NAME");
  command->add_option("--link", flags->link, "between ranks: shm, or a rate and latency as 10gbit,10us")
      ->type_name("LINK");
  command->add_option("--trace", flags->trace, "write a timeline of all ranks, for ui.perfetto.dev")->type_name("FILE");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft bench gemm-rs --ranks 2 --m 2048 --n 2048 --k 512\n"
      "  weft bench embedding-a2a --ranks 2 --tables 8 --rows 100000 --dim 64 --batch 1024 --json");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli
