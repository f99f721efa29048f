// `weft bench OP`: flags, refusals, and who does what. The command starts itself again as ranks (or threads);
// rank 0 prints what measure() found.
#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/new_file.h"
#include "weft/plan/text/save.h"
#include "weft/study/baseline/modules.h"
#include "weft/study/contest.h"
#include "weft/study/contest_memory.h"
#include "weft/study/device/device_study.h"
#include "weft/study/measure.h"
#include "weft/study/report/measured.h"
#include "weft/study/walk/sizes.h"
#include "weft/study/walk/sweep.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/command.h"
#include "cli/device_link.h"
#include "cli/flag_values.h"
#include "cli/op_flags.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"

namespace weft::cli::bench {
namespace {

struct Flags {
  OpRequest op;
  RankFlags ranks;  // number and hosts of the ranks are the op's, once parsed
  int rounds = 15;
  std::optional<std::string> sizes, ratios;  // none: kAllSizes, kWholeAxis
  std::string svg, save, save_collective;
  bool axis = false, sweep = false;
  int paired = 0;  // runs back to back; 0: where an op is short
  bool json = false;
  std::string device = "cpu";
};

constexpr const char* kAllSizes = "4K:64M";
constexpr double kShortUs = 50;  // a common start costs more than this
constexpr int kPairedRuns = 2000;
constexpr int kSweepRounds = 41;
constexpr double kSweepBudgetS = 1.5, kAxisBudgetS = 4;  // of a cell; of a point

void check_flags(const Flags& flags) {
  check_rank_flags(flags.ranks);
  if (flags.rounds < 1 || flags.rounds > 100'000) bad_input("--rounds is {}; use 1 to 100000", flags.rounds);
  if (flags.paired < 0 || flags.paired > 10'000'000) bad_input("--paired is {}; use 1 to 10000000 runs", flags.paired);
}

// A collective alone, with no shape given, is shown over sizes.
bool over_sizes(const Flags& flags, const OpSpec& spec) {
  return spec.alone() && spec.space.kind != SpaceKind::keep && !flags.op.m && !flags.op.n;
}

std::vector<double> ratios_of(const Flags& flags) {
  return parse_ratios(flags.ratios.value_or(std::string(kWholeAxis)));
}

// A sweep has its own shapes, and an axis its own depths.
void refuse_sizes_of_walk(const Flags& flags, const OpSpec& spec) {
  const std::vector<std::string_view> own =
      flags.sweep   ? std::vector<std::string_view>{"--m",   "--n",     "--k",       "--tables",  "--rows",
                                                    "--dim", "--batch", "--pooling", "--workload"}
      : !flags.axis ? std::vector<std::string_view>{}
                    : std::vector<std::string_view>{spec.producer.kind == ProducerKind::embedding_bag ? "--pooling"
                                                    : spec.gathers                                    ? "--n"
                                                                                                      : "--k"};
  for (const auto& [flag, value] : flags.op.given)
    if (std::find(own.begin(), own.end(), flag) != own.end())
      bad_input("{} {} is what {} walks over; leave it out", flag, value, flags.sweep ? "--sweep" : "--axis");
}

void check_walk(const Flags& flags, const OpSpec& spec) {
  if (spec.routing)
    bad_input("--workload {} draws rows of experts at run time, which is measured on a GPU; add --device cuda",
              spec.routing->workload);
  ratios_of(flags);  // says so where they are none
  if (flags.axis && flags.sweep) bad_input("--axis and --sweep are two walks; ask for one at a time");
  if (!flags.svg.empty() && !flags.axis && !flags.sweep) bad_input("--svg draws --axis or --sweep; add one of them");
  if ((flags.axis || flags.sweep) && !has_collective(spec))
    bad_input("--axis and --sweep need a producer and a collective on 2 ranks or more; {} on {} has not", spec.name,
              spec.ranks);
  if (flags.ratios && !flags.axis) bad_input("--ratios {} are walked by --axis; add it", *flags.ratios);
  if (flags.sizes && !over_sizes(flags, spec))
    bad_input("--sizes {} is for a collective alone without --m and --n, as `weft bench ar`; leave it out",
              *flags.sizes);
  if (flags.paired > 0 && (flags.axis || flags.sweep || spec.alone()))
    bad_input("--paired {} is for one op with a producer; leave it out", flags.paired);
  const bool one_op = !flags.axis && !flags.sweep && !over_sizes(flags, spec);
  if (!flags.save.empty() && !one_op)
    bad_input("--save {} is for the plan of one op; leave out --axis and --sweep, and give its size", flags.save);
  if (!flags.save_collective.empty() && (!one_op || !has_collective(spec)))
    bad_input("--save-collective {} is for one op with a producer and a collective; leave it out",
              flags.save_collective);
  refuse_sizes_of_walk(flags, spec);
}

OpSpec spec_of(const Flags& flags, int ranks) {
  OpRequest op = flags.op;
  op.ranks = ranks;
  return parse_op(op, kMaxLocalRanks);
}

MeasureOptions measure_options(const Flags& flags) {
  MeasureOptions options;
  options.rounds = flags.rounds;
  options.threads = flags.ranks.threads;
  return options;
}

std::vector<OpSpec> specs_of_sizes(const Flags& flags, int ranks) {
  const SpaceKind kind = spec_of(flags, ranks).space.kind;
  std::vector<OpSpec> out;
  for (const std::int64_t bytes : parse_sizes(flags.sizes.value_or(kAllSizes))) {
    Flags one = flags;
    set_size(kind, ranks, bytes, &one.op);
    out.push_back(spec_of(one, ranks));
  }
  return out;
}

// Between hosts `shm` is only what nobody has chosen.
std::string link_of(const World& world, const Flags& flags) {
  return flags.ranks.link == "shm" && world.has_wire() ? std::string(world.transport()) : flags.ranks.link;
}

void bench_sizes(World& world, const Flags& flags, Progress& progress) {
  std::vector<SizeRow> rows;
  const auto specs = specs_of_sizes(flags, world.size());
  for (const OpSpec& spec : specs) {
    progress.show(spec.name, int_size(rows), int_size(specs));
    rows.push_back({spec, measure(world, spec, measure_options(flags))});
  }
  if (world.rank() != 0) return;
  const ReportContext context{world.size(), flags.ranks.threads, link_of(world, flags)};
  fmt::print("{}", flags.json ? sizes_json(rows, context) : sizes_text(rows, context));
}

void bench_one(World& world, const Flags& flags, const OpSpec& spec, Progress& progress) {
  MeasureOptions options = measure_options(flags);
  options.progress = [&](int done, int of) { progress.show(spec.name, done, of); };
  options.plans = [&](const Plan& fused, const Plan* collective) {
    if (world.rank() != 0) return;
    if (!flags.save.empty()) save_plan(fused, flags.save);
    if (!flags.save_collective.empty() && collective != nullptr) save_plan(*collective, flags.save_collective);
  };
  const Measurement m = measure(world, spec, options);
  ReportContext context{world.size(), flags.ranks.threads, link_of(world, flags)};
  const bool paired = flags.paired > 0 || (has_collective(spec) && m.fused_us < kShortUs);
  if (paired && !spec.alone())
    context.paired = measure_paired(world, spec, {.runs = flags.paired > 0 ? flags.paired : kPairedRuns});
  if (world.rank() == 0) fmt::print("{}", flags.json ? json_report(spec, context, m) : text_report(spec, context, m));
}

WalkProgress shown_by(Progress& progress) {
  return [&progress](const std::string& what, int done, int of) {
    of > 0 ? progress.show(what, done, of) : progress.show(what);
  };
}

void bench_axis(World& world, const Flags& flags, Progress& progress) {
  OpRequest op = flags.op;
  op.ranks = world.size();
  MeasureOptions options = measure_options(flags);
  options.budget_s = kAxisBudgetS;
  const auto points = walk_axis(world, op, kMaxLocalRanks, ratios_of(flags), options, shown_by(progress));
  if (world.rank() != 0) return;
  const ReportContext context{world.size(), flags.ranks.threads, link_of(world, flags)};
  if (!flags.svg.empty()) write_file(flags.svg, axis_svg(points, context));
  fmt::print("{}", flags.json ? axis_json(points, context) : axis_text(points, context));
}

void bench_sweep(World& world, const Flags& flags, Progress& progress) {
  OpRequest op = flags.op;
  op.ranks = world.size();
  MeasureOptions options = measure_options(flags);
  options.rounds = std::max(flags.rounds, kSweepRounds);
  options.budget_s = kSweepBudgetS;
  options.panels = false;
  options.routes = true;
  const auto results = sweep(world, sweep_cells(op, kMaxLocalRanks), options, shown_by(progress));
  if (world.rank() != 0) return;
  const ReportContext context{world.size(), flags.ranks.threads, link_of(world, flags)};
  if (!flags.svg.empty()) write_file(flags.svg, sweep_svg(results, context));
  fmt::print("{}", flags.json ? sweep_json(results, context) : sweep_text(results, context));
}

void bench_rank(World& world, const Flags& flags) {
  Progress progress(world.rank() == 0 ? Progress::Who::speaks : Progress::Who::is_silent);
  const OpSpec spec = spec_of(flags, world.size());
  if (flags.axis) return bench_axis(world, flags, progress);
  if (flags.sweep) return bench_sweep(world, flags, progress);
  if (over_sizes(flags, spec)) return bench_sizes(world, flags, progress);
  bench_one(world, flags, spec, progress);
}

// Before anyone takes memory.
void check_all(const Flags& flags, const OpSpec& spec) {
  check_walk(flags, spec);
  if (flags.sweep) {
    OpRequest op = flags.op;
    op.ranks = spec.ranks;
    check_memory(sweep_cells(op, kMaxLocalRanks).back().spec);
  } else if (over_sizes(flags, spec)) {
    for (const OpSpec& one : specs_of_sizes(flags, spec.ranks)) check_memory(one);
  } else {
    check_memory(spec);
  }
}

// All ranks are this process's: they share one GPU.
int run_on_device(const Flags& flags) {
  if (flags.axis || flags.sweep || flags.sizes || flags.paired > 0 || !flags.save.empty() ||
      !flags.save_collective.empty())
    bad_input(
        "--device cuda measures one op; leave out --axis, --sweep, --sizes, --paired, --save and --save-collective");
  const OpSpec spec = device_spec(spec_of(flags, flags.op.ranks));
  Progress progress(Progress::Who::speaks);
  DeviceStudyOptions options;
  options.rounds = flags.rounds;
  options.trace = flags.ranks.trace;
  const std::string link = take_device_link(flags.ranks.link, flags.op.ranks_per_host, &options);
  options.progress = [&](int done, int of) { progress.show(spec.name, done, of); };
  const Measurement m = measure_on_device(spec, options);
  const ReportContext context{spec.ranks, 1, link, {}, device_name()};
  fmt::print("{}", flags.json ? json_report(spec, context, m) : text_report(spec, context, m));
  return 0;
}

int run(Flags flags) {
  flags.ranks.count = flags.op.ranks;
  flags.ranks.per_host = flags.op.ranks_per_host;
  if (flags.device != "cpu" && flags.device != "cuda") bad_input("--device is {}; use cpu or cuda", flags.device);
  if (flags.device == "cuda") {
    if (flags.rounds < 1 || flags.rounds > 100'000) bad_input("--rounds is {}; use 1 to 100000", flags.rounds);
    return run_on_device(flags);
  }
  check_flags(flags);
  const auto before = [&] {
    Flags placed = flags;
    if (launched_on_several_hosts()) placed.op.ranks_per_host = std::max(launched_here(), 0);
    check_all(placed, spec_of(placed, num_ranks(flags.ranks.count)));
  };
  const auto body = [&](World& world) {
    bench_rank(world, flags);
    return 0;
  };
  const int code = on_ranks(flags.ranks, body, {.before = before});
  if (launched())
    if (baseline::Mpi* mpi = load_mpi(); mpi != nullptr) mpi->finish();
  return code;
}

void add_command(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("bench", "measure an op on local ranks: compute, collective, sequential, fused");
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("op", flags->op.op,
                   "gemm-rs, gemm-ar, gemv-ar, gemm-a2a, embedding-a2a, ag-gemm, rs, ar, ag, a2a, bcast, ...")
      ->required()
      ->type_name("OP");
  add_op_flags(*command, &flags->op, kMaxLocalRanks);
  add_threads_flag(*command, &flags->ranks);
  add_number(*command, "--rounds", &flags->rounds, "rounds; every figure is a median over them (15)")->type_name("K");
  add_transport_flag(*command, &flags->ranks);
  add_link_flag(*command, &flags->ranks);
  add_trace_flag(*command, &flags->ranks)
      ->description("write a timeline of all ranks, for ui.perfetto.dev; of a GPU: of one run of fused, by CTA");
  command->add_option("--sizes", flags->sizes, "collectives alone, without --m and --n: FROM:TO[:FACTOR] (4K:64M:4)")
      ->type_name("SIZES");
  add_number(*command, "--paired", &flags->paired, "also run back to back, in blocks (2000 where an op is under 50 us)",
             1)
      ->type_name("RUNS")
      ->expected(0, 1)
      ->default_str(std::to_string(kPairedRuns));
  command->add_flag("--axis", flags->axis, "walk compute : communication from 0.1 to 10");
  command->add_option("--ratios", flags->ratios, fmt::format("with --axis: these alone ({})", kWholeAxis))
      ->type_name("R,R,...");
  command->add_flag("--sweep", flags->sweep, "40 shapes: `auto` against every route and sequential");
  command->add_option("--device", flags->device, "cpu, or cuda: all ranks on one GPU, in bf16 (cpu)")->type_name("D");
  add_out_file(*command, "--save", &flags->save, "write the plan that ran, for `weft sim net` or `weft plan --load`");
  add_out_file(*command, "--save-collective", &flags->save_collective, "write that of the collective alone");
  add_out_file(*command, "--svg", &flags->svg, "draw the axis or the sweep into this file");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft bench gemm-rs --ranks 2 --m 2048 --n 2048 --k 512\n"
      "  weft bench gemm-ar --ranks 4 --link 10gbit,10us --json\n"
      "  weft bench gemm --m 2048 --n 2048 --k 1024                       beside oneDNN and OpenBLAS\n"
      "  weft bench ar --sizes 4K:64M                                     a collective alone, as nccl-tests\n"
      "  weft bench gemv-ar --n 1024 --k 64 --paired 2000                 back to back\n"
      "  weft bench embedding-a2a --workload dlrm-v2 --tables-of one-hot --zipf 1.05\n"
      "  weft bench gemm-a2a --device cuda --ranks 8 --workload mixtral-8x7b --tokens 8192 --skew 0.3 --link pcie\n"
      "  weft bench gemm-rs --axis --link 10gbit,10us --svg axis.svg\n"
      "  weft bench gemm-ar --sweep --svg regimes.svg\n"
      "  weft bench gemm-rs --device cuda --ranks 4 --m 8192 --n 8192 --k 2048 --link 200GBps,1us\n"
      "  weft bench gemm-rs --device cuda --ranks 4 --trace f.json        what each CTA did, tile by tile\n"
      "  mpirun -n 2 build/weft bench gemm-rs --m 2048 --n 2048 --k 128   beside MPI");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace
}  // namespace weft::cli::bench

void weft::cli::add_bench(CLI::App& app, Run* chosen) { bench::add_command(app, chosen); }
