// What the network simulator says of collectives whose time can be written down, and what it costs: CPU seconds and
// events with one rank of each class, then with all of them. The figures of docs/results/scaleout.md.
#include <sys/resource.h>

#include <functional>
#include <optional>

#include <fmt/core.h>

#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/sim/net/run.h"

namespace weft::netsim {
namespace {

constexpr double kRate = 50e9, kLatency = 500e-9, kPacket = 4096 / kRate;
const Link kLink{kRate, kLatency};

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_mb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

Space space_of(int ranks, SpaceKind kind) {
  Space space;
  space.kind = kind;
  space.mesh = Mesh({{"tp", ranks}});
  space.axis = "tp";
  space.options.slices = 1;
  return space;
}

// 64 MiB, a tile per chunk.
Plan all_reduce_of(int ranks, Route route) {
  const Producer p = validated(copy({.rows = 4096, .cols = 4096, .tile = {4096 / ranks, 4096}}), ranks);
  return build_all_reduce(p, space_of(ranks, SpaceKind::all_reduce), route);
}

// 16 KiB a pair.
Plan exchange_of(int ranks) {
  const Producer p = validated(copy({.rows = 16 * ranks, .cols = 256, .tile = {16, 256}}), ranks);
  return build_all_to_all(p, space_of(ranks, SpaceKind::all_to_all));
}

void show(std::string_view what, const Plan& plan, const Topology& topology, std::optional<double> closed) {
  double end_us = 0;
  std::string text;
  for (const Ranks ranks : {Ranks::folded, Ranks::every}) {
    const double begin = cpu_seconds();
    const NetResult result = simulate(plan, topology, {{}, ranks});
    const double spent = cpu_seconds() - begin;
    if (ranks == Ranks::every && result.seconds() * 1e6 != end_us) fmt::print("folded and unfolded runs differ\n");
    end_us = result.seconds() * 1e6;
    if (text.empty())
      text = fmt::format("{:<28} {:>5} {:>12.3f} {:>12.3f} {:>8}", what, plan.num_ranks, end_us,
                         closed ? *closed * 1e6 : sim::to_seconds(result.bound) * 1e6, closed ? "closed" : "bound");
    text += fmt::format(" {:>6} {:>9.3f} {:>10}", result.simulated, spent, result.events);
  }
  fmt::print("{} {:>7.0f}\n", text, peak_mb());
}

void show_all(int n) {
  const double chunk = 4096.0 * 4096 * 4 / n / kRate, pair = 16 * 256 * 4 / kRate;
  const Plan ring = all_reduce_of(n, Route::ring), exchange = exchange_of(n);
  show("ring on a ring", ring, ring_topology(n, kLink), 2 * (n - 1) * (chunk + kLatency));
  Topology slow = ring_topology(n, kLink);
  slow_rank(&slow, 3, 2, "bench");
  show("ring, one slow rank", ring, slow, 2 * (n - 1) * (chunk + kLatency));
  show("ring through a switch", ring, switch_topology(n, kLink), 2 * (n - 1) * (chunk + 2 * kLatency + kPacket));
  show("all-to-all, switch", exchange, switch_topology(n, kLink), (n - 1) * pair + 4 * kLatency + kPacket);
  const int leaf = n / 32 < 8 ? 8 : 32;
  show("all-to-all, Clos 2:1", exchange,
       clos_topology({.ranks = n, .ranks_per_leaf = leaf, .num_spines = leaf / 2, .link = kLink, .uplink = kLink}), {});
  const int side = n == 1024 ? 32 : 8;
  show("all-to-all, torus", exchange, torus_topology({n / side, side}, {kLink, kLink}), {});
}

}  // namespace
}  // namespace weft::netsim

int main() {
  fmt::print("{:<28} {:>5} {:>12} {:>12} {:>8} {:>6} {:>9} {:>10} {:>6} {:>9} {:>10} {:>7}\n", "what", "ranks",
             "simulated us", "expected us", "", "folded", "CPU s", "events", "all", "CPU s", "events", "peak MB");
  for (const int ranks : {64, 128, 1024}) weft::netsim::show_all(ranks);
  return 0;
}
