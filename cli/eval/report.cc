// What `weft eval` prints.
#include <cmath>
#include <iterator>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/eval/eval.h"
#include "cli/table.h"

namespace weft::cli {
namespace {

constexpr double kClose = 1e-4;  // another number of ranks may round an item this close the other way

// The items of one name.
struct TaskTally {
  std::string name;
  std::vector<std::size_t> at;  // in the file
  std::int64_t right = 0, close = 0, cut = 0;

  std::int64_t items() const { return std::ssize(at); }
  double accuracy() const { return static_cast<double>(right) / static_cast<double>(items()); }
};

std::vector<TaskTally> tally(const EvalReport& report) {
  std::vector<TaskTally> tallies;
  std::map<std::string, std::size_t> index;
  std::vector<bool> cut(report.inputs.items.size(), false);
  for (const TaskUnit& unit : report.inputs.units)
    if (unit.cut) cut[unit.item] = true;
  for (std::size_t i = 0; i < report.found.items.size(); ++i) {
    const std::string& name = report.inputs.items[i].name;
    if (index.emplace(name, tallies.size()).second) tallies.push_back({name, {}, 0, 0, 0});
    TaskTally& task = tallies[index[name]];
    task.at.push_back(i);
    task.right += report.found.items[i].right;
    task.close += std::abs(report.found.items[i].margin) < kClose;
    task.cut += cut[i];
  }
  return tallies;
}

// The mean of the tasks' accuracies, as the papers give it, and its interval: the tasks' variances add.
struct MeanAccuracy {
  double mean = 0, half = 0;
};
MeanAccuracy mean_accuracy(const std::vector<TaskTally>& tasks) {
  MeanAccuracy out;
  for (const TaskTally& task : tasks) {
    out.mean += task.accuracy();
    const Interval interval = wilson(task.right, task.items());
    out.half += (interval.high - interval.low) * (interval.high - interval.low) / 4;
  }
  const auto n = static_cast<double>(tasks.size());
  return {out.mean / n, std::sqrt(out.half) / n};
}

std::vector<bool> rights(const std::vector<ItemScore>& items, const std::vector<std::size_t>& at) {
  std::vector<bool> out;
  for (const std::size_t i : at) out.push_back(items[i].right);
  return out;
}

std::int64_t scored_tokens(const EvalFound& found) {
  std::int64_t tokens = 0;
  for (const WindowScore& window : found.windows) tokens += window.tokens;
  return tokens;
}

double bits_per_byte(const EvalReport& report) {
  const double a_token = std::log2(perplexity(report.found.windows));
  return a_token * static_cast<double>(report.inputs.stream.size()) / static_cast<double>(report.inputs.text_bytes);
}

double tokens_per_s(const EvalFound& found) {
  const double seconds = found.windows_s + found.items_s;
  return seconds > 0 ? static_cast<double>(scored_tokens(found) + found.item_rows) / seconds : 0;
}

nlohmann::ordered_json paired_json(const EvalReport& report, const std::vector<TaskTally>& tasks) {
  nlohmann::ordered_json out{{"name", report.against_name}};
  const EvalFound& other = *report.against;
  if (!report.found.windows.empty()) {
    const PairedLoss loss = paired_loss(other.windows, report.found.windows);
    out["perplexity"] = perplexity(other.windows);
    out["loss"] = loss.loss, out["loss_low"] = loss.interval.low, out["loss_high"] = loss.interval.high;
    out["loss_p"] = loss.p;
  }
  out["tasks"] = nlohmann::ordered_json::array();
  for (const TaskTally& task : tasks) {
    const PairedAccuracy pair = paired_accuracy(rights(other.items, task.at), rights(report.found.items, task.at));
    out["tasks"].push_back({{"name", task.name},
                            {"difference", pair.difference},
                            {"low", pair.interval.low},
                            {"high", pair.interval.high},
                            {"only_here", pair.only_second},
                            {"only_there", pair.only_first},
                            {"p", pair.p}});
  }
  return out;
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string paired_text(const EvalReport& report, const std::vector<TaskTally>& tasks) {
  std::vector<std::vector<std::string>> rows{{"", "change", "from", "to", "p"}};
  const auto p_text = [](double p) { return p < 1e-4 ? std::string("< 0.0001") : fmt::format("{:.4f}", p); };
  const EvalFound& other = *report.against;
  if (!report.found.windows.empty()) {
    const PairedLoss loss = paired_loss(other.windows, report.found.windows);
    rows.push_back({"perplexity", fmt::format("{:+.2f} %", 100 * loss.loss),
                    fmt::format("{:+.2f} %", 100 * loss.interval.low),
                    fmt::format("{:+.2f} %", 100 * loss.interval.high), p_text(loss.p)});
  }
  for (const TaskTally& task : tasks) {
    const PairedAccuracy pair = paired_accuracy(rights(other.items, task.at), rights(report.found.items, task.at));
    rows.push_back({task.name, fmt::format("{:+.2f} points", 100 * pair.difference),
                    fmt::format("{:+.2f}", 100 * pair.interval.low), fmt::format("{:+.2f}", 100 * pair.interval.high),
                    p_text(pair.p)});
  }
  return fmt::format("\nagainst {} (paired; p: bootstrap over windows, McNemar's exact test):\n{}",
                     report.against_name == "none" ? "all blocks synchronised" : report.against_name,
                     aligned(rows, Last::number));
}

}  // namespace

std::string eval_json(const EvalReport& report) {
  const EvalFound& found = report.found;
  nlohmann::ordered_json out{{"model", report.flags.model},
                             {"ranks", report.flags.ranks.count},
                             {"spd", nullptr},
                             {"modes", report.modes},
                             {"perplexity", nullptr},
                             {"accuracy", nullptr}};
  if (!report.flags.spd.empty()) out["spd"] = report.flags.spd;
  if (!found.windows.empty()) {
    const Interval interval = perplexity_interval(found.windows);
    out["perplexity"] = perplexity(found.windows);
    out["perplexity_low"] = interval.low, out["perplexity_high"] = interval.high;
    out["bits_per_byte"] = bits_per_byte(report);
    out["window"] = report.inputs.window, out["windows"] = found.windows.size();
    out["tokens"] = scored_tokens(found);
  }
  const std::vector<TaskTally> tasks = tally(report);
  out["tasks"] = nlohmann::ordered_json::array();
  for (const TaskTally& task : tasks) {
    const Interval interval = wilson(task.right, task.items());
    out["tasks"].push_back({{"name", task.name},
                            {"items", task.items()},
                            {"right", task.right},
                            {"accuracy", task.accuracy()},
                            {"low", interval.low},
                            {"high", interval.high},
                            {"close", task.close},
                            {"cut", task.cut}});
  }
  if (!tasks.empty()) {
    const MeanAccuracy mean = mean_accuracy(tasks);
    out["accuracy"] = mean.mean;
    out["accuracy_low"] = mean.mean - mean.half, out["accuracy_high"] = mean.mean + mean.half;
  }
  out["sync_points"] = found.traffic.syncs_made, out["sync_points_dropped"] = found.traffic.syncs_dropped;
  out["bytes_sent"] = found.traffic.block_bytes + found.traffic.head_bytes;
  out["windows_s"] = found.windows_s, out["tasks_s"] = found.items_s, out["tokens_per_s"] = tokens_per_s(found);
  out["forward_s"] = found.traffic.forward_s, out["head_s"] = found.traffic.head_s;
  out["block_op_s"] = found.traffic.block_op_s;
  if (report.against) out["against"] = paired_json(report, tasks);
  return out.dump() + "\n";
}

std::string eval_text(const EvalReport& report) {
  const EvalFound& found = report.found;
  std::string out = fmt::format("{} on {} {}, {}\n\n", report.flags.model, report.flags.ranks.count,
                                report.flags.ranks.count == 1 ? "rank" : "ranks", report.modes);
  std::vector<std::vector<std::string>> rows{{"", "", "from", "to", "of"}};
  if (!found.windows.empty()) {
    const Interval interval = perplexity_interval(found.windows);
    rows.push_back({"perplexity", fmt::format("{:.3f}", perplexity(found.windows)), fmt::format("{:.3f}", interval.low),
                    fmt::format("{:.3f}", interval.high),
                    fmt::format("{} tokens in {} windows of {}; {:.4f} bits a byte", scored_tokens(found),
                                found.windows.size(), report.inputs.window, bits_per_byte(report))});
  }
  const std::vector<TaskTally> tasks = tally(report);
  for (const TaskTally& task : tasks) {
    const Interval interval = wilson(task.right, task.items());
    std::string note = fmt::format("{} items", task.items());
    if (task.close > 0) note += fmt::format(", {} within {:g} of the other answer", task.close, kClose);
    if (task.cut > 0) note += fmt::format(", {} contexts cut to fit", task.cut);
    rows.push_back({task.name, percent(task.accuracy()), percent(interval.low), percent(interval.high), note});
  }
  if (tasks.size() > 1) {
    const MeanAccuracy mean = mean_accuracy(tasks);
    rows.push_back({"mean accuracy", percent(mean.mean), percent(mean.mean - mean.half), percent(mean.mean + mean.half),
                    "of the tasks"});
  }
  out += aligned(rows);
  if (report.against) out += paired_text(report, tasks);
  out += fmt::format("\n{:.1f} s on windows, {:.1f} s on items: {:.0f} tokens/s with {} {} a rank\n", found.windows_s,
                     found.items_s, tokens_per_s(found), report.flags.ranks.threads,
                     report.flags.ranks.threads == 1 ? "thread" : "threads");
  return out;
}

}  // namespace weft::cli
