#include "cli/reshard/plan_report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/study/proof.h"
#include "weft/study/reshard/nic_gantt.h"

namespace weft::cli::reshard {
namespace {

// Of standard output; 100 where it is no terminal.
int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return std::min<int>(size.ws_col, 160);
  return 100;
}

constexpr std::size_t kShownTensors = 6, kShownProblems = 5;
constexpr Choice kChoices[] = {Choice::naive, Choice::balance, Choice::dfs, Choice::greedy, Choice::ours};
constexpr Strategy kStrategies[] = {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather,
                                    Strategy::broadcast};

std::string bound_text(const Schedule& schedule) {
  if (schedule.makespan_s == 0) return "nothing travels between hosts";
  if (schedule.optimal && schedule.makespan_s <= schedule.lower_bound_s * (1 + 1e-9)) return "no schedule is shorter";
  if (schedule.optimal) return "the makespan is the optimum all the same: an exact search found nothing shorter";
  return fmt::format("the makespan is {:.3g} times it", schedule.makespan_s / schedule.lower_bound_s);
}

std::string proof_text(const PlannedReshard& planned, const std::optional<ProvedReshard>& proof) {
  if (!planned.problems.empty())
    return fmt::format("refused: {}",
                       fmt::join(planned.problems.begin(),
                                 planned.problems.begin() +
                                     static_cast<std::ptrdiff_t>(std::min(planned.problems.size(), kShownProblems)),
                                 "; "));
  const std::string checked = "every receiver gets every element once, no NIC or uplink carries more than its rate";
  if (!proof) return checked;
  if (!proof->verdict.ok()) return fmt::format("{}; but its plan is refused: {}", checked, proof->verdict.problems[0]);
  return fmt::format("{}; plan of {} actions proved in {:.3g} ms", checked, proof->verdict.actions, proof->verify_ms);
}

std::string seconds_and_share(const Spec& spec, double seconds) {
  return fmt::format("{}, {} of the whole over one NIC", format_duration(seconds),
                     share_text(spec.in_tensors(seconds)));
}

// The largest few tensors, and what the others are together.
std::string tensor_table(const Spec& spec) {
  const auto& transfers = spec.reshard.transfers;
  std::vector<std::size_t> order(transfers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wire_bytes(transfers[a]) > wire_bytes(transfers[b]); });
  std::vector<std::vector<std::string>> rows{{"largest tensors", "bytes", "layout"}};
  for (std::size_t i = 0; i < std::min(order.size(), kShownTensors); ++i) {
    const Transfer& one = transfers[order[i]];
    const auto where = [&](const ShardedTensor& tensor) {
      return fmt::format("{} {}", spec.reshard.placements[at(tensor.placement)].name, to_string(tensor.sharding));
    };
    rows.push_back({one.destination.name, format_bytes(wire_bytes(one)),
                    fmt::format("{} {} -> {}{}", fmt::join(one.destination.shape, "x"), where(one.parts[0].tensor),
                                where(one.destination),
                                one.parts.size() > 1 ? fmt::format(" from {} parts", one.parts.size()) : "")});
  }
  std::string out = draw::aligned(rows);
  if (order.size() > kShownTensors) out += fmt::format("  ... and {} more\n", order.size() - kShownTensors);
  return out + "\n";
}

nlohmann::ordered_json summary(const Spec& spec, const PlannedReshard& planned) {
  const Schedule& s = planned.schedule;
  return {{"strategy", to_string(s.strategy)},
          {"choice", to_string(s.choice)},
          {"tasks", planned.tasks.size()},
          {"chunks", s.chunks.size()},
          {"makespan", spec.in_tensors(s.makespan_s)},
          {"lower_bound", spec.in_tensors(s.lower_bound_s)},
          {"makespan_s", s.makespan_s},
          {"lower_bound_s", s.lower_bound_s},
          {"optimal", s.optimal},
          {"plan_ms", planned.plan_ms},
          {"ok", planned.problems.empty()},
          {"why", s.why}};
}

nlohmann::ordered_json context(const Spec& spec) {
  return {{"name", spec.name},
          {"tensors", spec.reshard.transfers.size()},
          {"bytes", spec.bytes},
          {"ranks", spec.reshard.num_ranks},
          {"hosts", spec.network.num_hosts()},
          {"nics", spec.network.nics.size()},
          {"nic_bytes_per_s", spec.nic_bytes_per_s()},
          {"latency_s", spec.network.latency_s}};
}

}  // namespace

std::string network_text(const Network& network) {
  std::set<double> rates;
  for (const Nic& nic : network.nics) rates.insert(nic.bytes_per_s);
  const auto hosts = num(network.num_hosts()), nics = network.nics.size();
  const std::string count = nics == hosts       ? "a NIC"
                            : nics % hosts == 0 ? fmt::format("{} NICs", nics / hosts)
                                                : fmt::format("{} NICs in all", nics);
  const std::string rate = rates.size() == 1
                               ? format_rate(*rates.begin())
                               : fmt::format("{} to {}", format_rate(*rates.begin()), format_rate(*rates.rbegin()));
  return fmt::format("{} hosts with {} of {}, {}", hosts, count, rate, format_duration(network.latency_s));
}

std::string plan_text(const Spec& spec, const PlannedReshard& planned, const std::optional<ProvedReshard>& proof) {
  const Schedule& s = planned.schedule;
  std::string out = fmt::format("{} ({}), {}\n\n", spec.name, format_bytes(spec.bytes), network_text(spec.network));
  if (spec.reshard.transfers.size() > 1) out += tensor_table(spec);
  out += fmt::format("  strategy  {}; senders and order: {}\n", to_string(s.strategy), to_string(s.choice));
  if (!s.why.empty()) out += fmt::format("  why       {}\n", s.why);
  out += fmt::format("  tasks     {} in {} chunks, planned in {:.3g} ms\n", planned.tasks.size(), s.chunks.size(),
                     planned.plan_ms);
  out += fmt::format("  makespan  {}\n", seconds_and_share(spec, s.makespan_s));
  out += fmt::format("  bound     {}; {}\n", seconds_and_share(spec, s.lower_bound_s), bound_text(s));
  if (!spec.published.empty()) out += fmt::format("  published {}\n", spec.published);
  out += fmt::format("  checked   {}\n\n", proof_text(planned, proof));
  return out + gantt_text(spec, planned.tasks, s, {.width = terminal_width()});
}

std::string plan_json(const Spec& spec, const PlannedReshard& planned, const std::optional<ProvedReshard>& proof) {
  nlohmann::ordered_json out = summary(spec, planned);
  out.update(context(spec));
  std::vector<std::string> all = planned.problems;
  if (proof) all.insert(all.end(), proof->verdict.problems.begin(), proof->verdict.problems.end());
  out["ok"] = all.empty();
  out["problems"] = all;
  out["proved"] = proof ? nlohmann::ordered_json(proof->verdict.ok()) : nlohmann::ordered_json(nullptr);
  out["actions"] = proof ? nlohmann::ordered_json(proof->verdict.actions) : nlohmann::ordered_json(nullptr);
  out["build_ms"] = proof ? nlohmann::ordered_json(proof->build_ms) : nlohmann::ordered_json(nullptr);
  out["verify_ms"] = proof ? nlohmann::ordered_json(proof->verify_ms) : nlohmann::ordered_json(nullptr);
  auto prices = nlohmann::ordered_json::array();
  for (const Priced& one : planned.prices)
    prices.push_back({{"strategy", to_string(one.strategy)}, {"seconds", one.seconds}});
  out["prices"] = prices;
  if (!spec.published.empty()) out["published"] = spec.published;
  return json_line(out);
}

std::vector<ComparedRow> compare_plans(const Spec& spec) {
  std::vector<ComparedRow> rows;
  for (const Strategy strategy : kStrategies)
    for (const Choice choice : kChoices) {
      ReshardOptions options = spec.options;
      options.schedule.strategy = strategy, options.schedule.choice = choice;
      rows.push_back({strategy, choice, plan_reshard(spec.reshard, spec.network, options)});
    }
  return rows;
}

std::string compare_text(const Spec& spec, const std::vector<ComparedRow>& rows) {
  std::string out = fmt::format("{} ({}), {}\n\n", spec.name, format_bytes(spec.bytes), network_text(spec.network));
  out += fmt::format("  makespan in units of the whole over one NIC; the bound is {}\n\n",
                     share_text(spec.in_tensors(rows.back().planned.schedule.lower_bound_s)));
  std::vector<std::vector<std::string>> table{{""}};
  for (const Choice choice : kChoices) table[0].emplace_back(to_string(choice));
  for (const Strategy strategy : kStrategies) {
    table.push_back({std::string(to_string(strategy))});
    for (const ComparedRow& row : rows)
      if (row.strategy == strategy)
        table.back().push_back(share_text(spec.in_tensors(row.planned.schedule.makespan_s)) +
                               (row.planned.problems.empty() ? "" : " !"));
  }
  table.push_back({"planned in, ms (broadcast)"});
  for (const ComparedRow& row : rows)
    if (row.strategy == Strategy::broadcast) table.back().push_back(fmt::format("{:.3g}", row.planned.plan_ms));
  return out + draw::aligned(table, draw::Last::number);
}

std::string compare_json(const Spec& spec, const std::vector<ComparedRow>& rows) {
  nlohmann::ordered_json out = context(spec);
  out["lower_bound"] = spec.in_tensors(rows.back().planned.schedule.lower_bound_s);
  out["rows"] = nlohmann::ordered_json::array();
  bool ok = true;
  for (const ComparedRow& row : rows) {
    out["rows"].push_back(summary(spec, row.planned));
    ok = ok && row.planned.problems.empty();
  }
  out["ok"] = ok;
  return json_line(out);
}

}  // namespace weft::cli::reshard
