// How good and how quick is the planner of resharding? Three tables: the nine cases of the literature with every
// choice; many random cases (meshes up to 4x8, 1 to 3 dimensions), with the worst of them named by seed; and 64x8 to
// 64x8 devices. Exits 1 where ours is longer than another choice or than the exact search.
//   cmake --build build --target reshard_cases && build/bench/reshard_cases --cases 10000
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/reshard/cases_test.h"
#include "weft/reshard/schedule/exact.h"

namespace weft {
namespace {

using Value = nlohmann::ordered_json;

constexpr Choice kChoices[] = {Choice::naive, Choice::balance, Choice::dfs, Choice::greedy, Choice::ours};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Value nine_rows() {
  Value rows = Value::array();
  for (const NineCase& c : nine_cases()) {
    const Instance instance = instance_of(c);
    Value row{{"case", rows.size() + 1}, {"layout", fmt::format("{} -> {}", c.source, c.destination)}};
    for (const Choice choice : kChoices) {
      const double begin = now_s();
      const Schedule s = schedule(tasks(instance.reshard), instance.network, {.choice = choice});
      row["plan_ms"] = (now_s() - begin) * 1e3;  // of the last: ours
      row[std::string(to_string(choice))] = s.makespan_s / instance.unit_s;
      row["bound"] = s.lower_bound_s / instance.unit_s;
      row["why"] = s.why;
    }
    rows.push_back(row);
  }
  return rows;
}

// The optimum of whole tasks one at a time, where an exact search proves it; else 0.
double exact_optimum(const std::vector<Task>& all, const Network& network) {
  const SiteTable table(all, network);
  const Resources resources(network);
  const Exact exact = exact_search({all, table, resources, Strategy::broadcast}, 2'000'000);
  return exact.is_proved ? exact.makespan_s : 0;
}

struct Tally {
  std::int64_t cases = 0, at_bound = 0, cut = 0, exact_checked = 0, exact_beaten = 0, worse = 0;
  double sum = 0, worst = 0, slowest_ms = 0, total_ms = 0;
  std::uint64_t worst_seed = 0;
  double others[4] = {0, 0, 0, 0};  // sums of makespan / bound
};

void add_case(std::uint64_t seed, Tally& tally) {
  const Instance instance = random_case(seed);
  const double begin = now_s();
  const std::vector<Task> all = tasks(instance.reshard);
  const Schedule ours = schedule(all, instance.network);
  const double ms = (now_s() - begin) * 1e3, ratio = ours.makespan_s / ours.lower_bound_s;
  ++tally.cases;
  tally.at_bound += ours.optimal;
  tally.sum += ratio;
  tally.total_ms += ms;
  tally.slowest_ms = std::max(tally.slowest_ms, ms);
  if (ratio > tally.worst) tally.worst = ratio, tally.worst_seed = seed;
  for (std::size_t i = 0; i < 4; ++i) {
    const double other = schedule(all, instance.network, {.choice = kChoices[i]}).makespan_s;
    tally.others[i] += other / ours.lower_bound_s;
    tally.worse += ours.makespan_s > other * (1 + 1e-9);
  }
  if (all.size() > num(kMostExactTasks)) return;
  const double optimum = exact_optimum(all, instance.network);
  if (optimum == 0) return;
  ++tally.exact_checked;
  tally.exact_beaten += ours.makespan_s < optimum * (1 - 1e-9);
  tally.worse += ours.makespan_s > optimum * (1 + 1e-9);
}

Value random_rows(std::int64_t cases, std::uint64_t first_seed) {
  Tally tally;
  for (std::int64_t i = 0; i < cases; ++i) add_case(first_seed + static_cast<std::uint64_t>(i), tally);
  const auto n = static_cast<double>(std::max<std::int64_t>(tally.cases, 1));
  Value value{{"cases", tally.cases},
              {"worse", tally.worse},
              {"at_bound", tally.at_bound},
              {"mean", tally.sum / n},
              {"worst", tally.worst},
              {"worst_seed", tally.worst_seed},
              {"mean_plan_ms", tally.total_ms / n},
              {"slowest_plan_ms", tally.slowest_ms},
              {"exact_checked", tally.exact_checked},
              {"exact_beaten_by_cutting", tally.exact_beaten}};
  for (std::size_t i = 0; i < 4; ++i) value["mean_" + std::string(to_string(kChoices[i]))] = tally.others[i] / n;
  return value;
}

struct Large {
  Shape shape;
  std::string source, destination;
  int nics;  // a host
};

Value large_rows() {
  Value rows = Value::array();
  for (const Large& c : {Large{{8192, 4096}, "S0,R", "R,S01", 1}, Large{{8191, 4093}, "S0,R", "R,S01", 1},
                         Large{{8191, 4093}, "S10,R", "R,S01", 1}, Large{{8191, 4093}, "S1,S0", "S01,R", 8},
                         Large{{8191, 4093}, "S0,R", "R,S01", 8}, Large{{8191, 4093}, "S1,R", "R,S0", 8}}) {
    const Mesh mesh = hosts_by_devices(64, 8);
    Network network = one_nic_a_host(128, 8, {1e9, 0}, {19e9, 0});
    if (c.nics == 8) {
      network.nics.clear();
      for (int rank = 0; rank < 1024; ++rank) {
        network.nics.push_back({rank / 8, 1e9});
        network.nic_of[at(rank)] = rank;
      }
    }
    const Reshard reshard = one_tensor(c.shape, Dtype::f32, mesh, c.source, mesh, c.destination);
    const double begin = now_s();
    const std::vector<Task> all = tasks(reshard);
    const Schedule ours = schedule(all, network);
    const double ms = (now_s() - begin) * 1e3;
    rows.push_back({{"layout", fmt::format("{} -> {}", c.source, c.destination)},
                    {"nics_per_host", c.nics},
                    {"tasks", all.size()},
                    {"chunks", ours.chunks.size()},
                    {"ratio", ours.makespan_s / ours.lower_bound_s},
                    {"plan_ms", ms},
                    {"why", ours.why}});
  }
  return rows;
}

void print(const Value& report) {
  fmt::print("The nine cases, in whole tensors over one NIC\n{:>4} {:24} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8}\n",
             "case", "layout", "naive", "balance", "dfs", "greedy", "ours", "bound", "plan ms");
  for (const Value& r : report["nine"])
    fmt::print("{:>4} {:24} {:7.4f} {:7.4f} {:7.4f} {:7.4f} {:7.4f} {:7.4f} {:8.2f}\n", r["case"].get<int>(),
               r["layout"].get<std::string>(), r["naive"].get<double>(), r["balance"].get<double>(),
               r["dfs"].get<double>(), r["greedy"].get<double>(), r["ours"].get<double>(), r["bound"].get<double>(),
               r["plan_ms"].get<double>());
  const Value& r = report["random"];
  fmt::print("\n{} random cases, makespan / bound: ours mean {:.5f}, worst {:.4f} (seed {}); at the bound in {}\n",
             r["cases"].get<int>(), r["mean"].get<double>(), r["worst"].get<double>(),
             r["worst_seed"].get<std::uint64_t>(), r["at_bound"].get<int>());
  fmt::print("means of the others: naive {:.3f}, balance {:.3f}, dfs {:.3f}, greedy {:.3f}; ours longer than any: {}\n",
             r["mean_naive"].get<double>(), r["mean_balance"].get<double>(), r["mean_dfs"].get<double>(),
             r["mean_greedy"].get<double>(), r["worse"].get<int>());
  fmt::print(
      "exact search of whole tasks proved in {}; cutting is shorter in {}; plan mean {:.2f} ms, slowest {:.1f} ms\n",
      r["exact_checked"].get<int>(), r["exact_beaten_by_cutting"].get<int>(), r["mean_plan_ms"].get<double>(),
      r["slowest_plan_ms"].get<double>());
  fmt::print("\n64x8 to 64x8 devices\n{:18} {:>5} {:>7} {:>7} {:>9} {:>8}\n", "layout", "nics", "tasks", "chunks",
             "ratio", "plan ms");
  for (const Value& l : report["large"])
    fmt::print("{:18} {:>5} {:>7} {:>7} {:9.6f} {:8.1f}  {}\n", l["layout"].get<std::string>(),
               l["nics_per_host"].get<int>(), l["tasks"].get<int>(), l["chunks"].get<int>(), l["ratio"].get<double>(),
               l["plan_ms"].get<double>(), l["why"].get<std::string>());
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App app{"Makespan and planning time of cross-mesh resharding"};
  std::int64_t cases = 10'000;
  std::uint64_t seed = 1;
  bool json = false;
  app.add_option("--cases", cases, "random cases");
  app.add_option("--seed", seed, "of the first one");
  app.add_flag("--json", json, "one object on stdout");
  CLI11_PARSE(app, argc, argv);
  const weft::Value report{
      {"nine", weft::nine_rows()}, {"random", weft::random_rows(cases, seed)}, {"large", weft::large_rows()}};
  if (json)
    fmt::print("{}\n", report.dump(2));
  else
    weft::print(report);
  return report["random"]["worse"].get<int>() == 0 ? 0 : 1;
}
