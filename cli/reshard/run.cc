// `weft reshard run`: checks, starts the ranks, seats the meshes on them, and rank 0 prints what move_tensors measured.
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/reshard/seats.h"
#include "weft/study/reshard/move.h"
#include "weft/study/reshard/shards.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/memory.h"
#include "weft/world/world.h"

#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/reshard/plan_report.h"
#include "cli/reshard/reshard.h"

namespace weft::cli::reshard {
namespace {

constexpr std::int64_t kStagingBytes = 16 << 20;  // no op takes more beside its shards

bool paced(const RunFlags& flags) { return is_paced(flags.reshard.link); }

void check_flags(const RunFlags& flags) {
  if (flags.rounds < 1 || flags.rounds > 100'000) bad_input("--rounds is {}; use 1 to 100000", flags.rounds);
  check_rank_flags(flags.ranks);
}

std::vector<Strategy> strategies_of(const RunFlags& flags, const Spec& spec) {
  if (!flags.reshard.compare) return {spec.options.schedule.strategy};
  return {Strategy::automatic, Strategy::broadcast, Strategy::send_recv, Strategy::local_allgather,
          Strategy::global_allgather};
}

// Refused before anything is touched: asking the kernel for too much brings its killer, not an error.
void check_fits(const RunFlags& flags, const Spec& spec, int world_size) {
  const bool manifest = !flags.reshard.tensors.empty();
  if (world_size > kMaxLocalRanks && !under_mpirun())
    bad_input("{} ranks are more than one machine takes ({}); use {}", world_size, kMaxLocalRanks,
              manifest ? "--small" : "smaller meshes");
  const double ops = strategies_of(flags, spec).size();
  double bytes = 0;
  for (int rank = 0; rank < spec.reshard.num_ranks; ++rank) {
    const ShardBytes shards = shard_bytes(spec.reshard, rank);
    bytes += static_cast<double>(shards.source) + ops * (shards.destination + kStagingBytes);
  }
  const double free = available_memory_bytes();
  if (bytes > 0.9 * free)
    fail(Code::no_memory, "{} needs {} for the shards of {} ranks, and {} are free; use {}", spec.name,
         format_bytes(bytes), spec.reshard.num_ranks, format_bytes(free),
         manifest ? "--small or --scale 1/64" : "--size 64MB or smaller meshes");
}

WorldOptions world_options(const RunFlags& flags, const Spec& spec) {
  WorldOptions options = cli::world_options(flags.ranks);
  if (!paced(flags)) return options;
  options.link->fabric = Fabric::nic;  // a host sends, and receives, at its NIC's rate, whoever is at the other end
  options.ranks_per_host = seats_per_host(spec.network);
  return options;
}

// On several hosts the world says where ranks are and how fast the links between them; else the meshes do.
Spec seated_in(const World& world, const RunFlags& flags, const Spec& spec) {
  const bool wire = world.has_wire();
  if (!wire && !paced(flags)) {
    if (world.size() != spec.reshard.num_ranks)
      bad_input("the meshes have {} ranks, but the world has {}; start {}", spec.reshard.num_ranks, world.size(),
                spec.reshard.num_ranks);
    return spec;
  }
  Seated seats = seated(spec.reshard, spec.network, world.hosts());
  Spec out = spec;
  out.reshard = std::move(seats.reshard);
  out.network = std::move(seats.network);
  if (!wire || !flags.reshard.network.empty()) return out;
  const Link link = world.cluster(world.size()).network;
  for (Nic& nic : out.network.nics) nic.bytes_per_s = link.bytes_per_s;
  out.network.latency_s = link.latency_s;
  return out;
}

struct Report {
  const Spec& spec;
  const RunFlags& flags;
  const MoveResult& result;
  std::string transport, link;
  bool costs;  // whether links do, so that line rate and makespan mean something
};

nlohmann::ordered_json row_json(const Report& report, const StrategyMove& moved) {
  const Schedule& s = moved.planned.schedule;
  const double gbps = report.spec.bytes * 8e-3 / moved.time_us;
  nlohmann::ordered_json row{{"asked", to_string(moved.asked)},
                             {"strategy", to_string(s.strategy)},
                             {"choice", to_string(s.choice)},
                             {"tasks", moved.planned.tasks.size()},
                             {"chunks", s.chunks.size()},
                             {"makespan", report.spec.in_tensors(s.makespan_s)},
                             {"lower_bound", report.spec.in_tensors(s.lower_bound_s)},
                             {"makespan_us", s.makespan_s * 1e6},
                             {"plan_ms", moved.planned.plan_ms},
                             {"time_us", moved.time_us},
                             {"gbps", gbps},
                             {"of_makespan", nullptr},
                             {"of_line_rate", nullptr},
                             {"predicted_us", moved.planned.predicted_s() * 1e6},
                             {"verified", true},
                             {"staging_bytes", moved.staging_bytes},
                             {"why", s.why}};
  if (report.costs) {
    row["of_makespan"] = s.makespan_s * 1e6 / moved.time_us;
    row["of_line_rate"] = gbps * 1e9 / 8 / report.spec.nic_bytes_per_s();
  }
  return row;
}

std::string run_json(const Report& report) {
  nlohmann::ordered_json out = row_json(report, report.result.moves[0]);
  out.update(nlohmann::ordered_json{{"name", report.spec.name},
                                    {"tensors", report.spec.reshard.transfers.size()},
                                    {"bytes", report.spec.bytes},
                                    {"elements", report.result.elements},
                                    {"ranks", report.spec.reshard.num_ranks},
                                    {"hosts", report.spec.network.num_hosts()},
                                    {"nic_bytes_per_s", report.spec.nic_bytes_per_s()},
                                    {"transport", report.transport},
                                    {"link", report.link},
                                    {"rounds", report.flags.rounds}});
  if (report.flags.reshard.compare) {
    out["aa_band"] = report.result.aa_band;
    out["rows"] = nlohmann::ordered_json::array();
    for (const StrategyMove& moved : report.result.moves) out["rows"].push_back(row_json(report, moved));
  }
  return json_line(out);
}

std::string run_text(const Report& report) {
  const Spec& spec = report.spec;
  std::string out =
      fmt::format("{} ({}), {} ranks as {}, {}\n\n", spec.name, format_bytes(spec.bytes), spec.reshard.num_ranks,
                  report.transport, report.costs ? network_text(spec.network) : "at the speed of memory");
  std::vector<std::vector<std::string>> table{{"strategy", "time", "predicted", "Gbit/s"}};
  if (report.costs) table[0].insert(table[0].end(), {"makespan", "of it", "of line rate"});
  table[0].emplace_back("staging");
  for (const StrategyMove& moved : report.result.moves) {
    const Schedule& s = moved.planned.schedule;
    const double gbps = spec.bytes * 8e-3 / moved.time_us;
    table.push_back({moved.asked == s.strategy ? std::string(to_string(s.strategy))
                                               : fmt::format("{} ({})", to_string(moved.asked), to_string(s.strategy)),
                     format_duration(moved.time_us * 1e-6), format_duration(moved.planned.predicted_s()),
                     fmt::format("{:.3g}", gbps)});
    if (report.costs)
      table.back().insert(table.back().end(),
                          {format_duration(s.makespan_s), fmt::format("{:.1f} %", s.makespan_s * 1e8 / moved.time_us),
                           fmt::format("{:.1f} %", gbps * 1e11 / 8 / spec.nic_bytes_per_s())});
    table.back().push_back(format_bytes(moved.staging_bytes));
  }
  out += draw::aligned(table, draw::Last::number);
  const StrategyMove& first = report.result.moves[0];
  out += fmt::format("\n  why       {}\n", first.planned.schedule.why);
  out += fmt::format("  verified  all {} elements at their ranks, in each of {} rounds, values new in every round\n",
                     report.result.elements, report.flags.rounds + 1);
  if (report.flags.reshard.compare)
    out += fmt::format("  noise     the same op twice differs by {:.1f} %\n", 100 * report.result.aa_band);
  return out;
}

int run_rank(World& world, const RunFlags& flags, const Spec& asked) {
  const Spec spec = seated_in(world, flags, asked);
  Progress progress(world.rank() == 0 ? Progress::Who::speaks : Progress::Who::is_silent);
  MoveOptions options;
  options.reshard = spec.options;
  options.rounds = flags.rounds;
  options.strategies = strategies_of(flags, spec);
  options.again = flags.reshard.compare;
  options.spoil = flags.spoil && world.rank() == spec.reshard.placements.back().ranks.back();
  options.progress = [&](int done, int of) { progress.show("reshard", done, of); };
  const MoveResult result = move_tensors(world, spec.reshard, spec.network, options);
  // Where an element is wrong, the rank that found it says so and fails; the others end well. One that failed too, and
  // was first, would be reported to the rank that is still being told of it, which would then die of that and say
  // nothing.
  if (!result.ok || world.rank() != 0) return 0;
  const bool wire = world.has_wire();
  const Report report{spec,
                      flags,
                      result,
                      std::string(world.transport()),
                      paced(flags) ? flags.reshard.link
                      : wire       ? std::string(world.transport())
                                   : "shm",
                      paced(flags) || wire};
  fmt::print("{}", flags.reshard.json ? run_json(report) : run_text(report));
  return 0;
}

}  // namespace

int run(const RunFlags& asked) {
  RunFlags flags = asked;
  flags.ranks.link = flags.reshard.link;
  check_flags(flags);
  const Spec spec = parse_reshard(flags.reshard);
  flags.ranks.count = paced(flags) ? seats_per_host(spec.network) * spec.network.num_hosts() : spec.reshard.num_ranks;
  return on_ranks(flags.ranks, [&](World& world) { return run_rank(world, flags, spec); },
                  {.before = [&] { check_fits(flags, spec, flags.ranks.count); },
                   .options = [&] { return world_options(flags, spec); }});
}

}  // namespace weft::cli::reshard
