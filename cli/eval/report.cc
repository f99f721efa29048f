// What `weft eval` prints.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/draw/text_table.h"
#include "weft/llm/eval/tally.h"

#include "cli/eval/eval.h"

namespace weft::cli::eval {
namespace {

std::vector<TaskTally> tally_of(const Report& report) {
  return tally(report.inputs.items, report.inputs.units, report.found.items);
}

nlohmann::ordered_json paired_json(const Report& report, const std::vector<TaskTally>& tasks) {
  nlohmann::ordered_json out{{"name", report.flags.against}};
  const Evaluation& other = *report.against;
  if (!report.found.windows.empty()) {
    const PairedLoss loss = paired_loss(other.windows, report.found.windows);
    out["perplexity"] = perplexity(other.windows);
    out["loss"] = loss.loss, out["loss_low"] = loss.interval.low, out["loss_high"] = loss.interval.high;
    out["loss_p"] = loss.p;
  }
  out["tasks"] = nlohmann::ordered_json::array();
  for (const TaskTally& task : tasks) {
    const PairedAccuracy pair = paired_accuracy(task, other.items, report.found.items);
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

std::string paired_text(const Report& report, const std::vector<TaskTally>& tasks) {
  std::vector<std::vector<std::string>> rows{{"", "change", "from", "to", "p"}};
  const auto p_text = [](double p) { return p < 1e-4 ? std::string("< 0.0001") : fmt::format("{:.4f}", p); };
  const Evaluation& other = *report.against;
  if (!report.found.windows.empty()) {
    const PairedLoss loss = paired_loss(other.windows, report.found.windows);
    rows.push_back({"perplexity", fmt::format("{:+.2f} %", 100 * loss.loss),
                    fmt::format("{:+.2f} %", 100 * loss.interval.low),
                    fmt::format("{:+.2f} %", 100 * loss.interval.high), p_text(loss.p)});
  }
  for (const TaskTally& task : tasks) {
    const PairedAccuracy pair = paired_accuracy(task, other.items, report.found.items);
    rows.push_back({task.name, fmt::format("{:+.2f} points", 100 * pair.difference),
                    fmt::format("{:+.2f}", 100 * pair.interval.low), fmt::format("{:+.2f}", 100 * pair.interval.high),
                    p_text(pair.p)});
  }
  return fmt::format("\nagainst {} (paired; p: bootstrap over windows, McNemar's exact test):\n{}",
                     report.flags.against == "none" ? "all blocks synchronised" : report.flags.against,
                     draw::aligned(rows, draw::Last::number));
}

}  // namespace

std::string json_report(const Report& report) {
  const Evaluation& found = report.found;
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
    out["bits_per_byte"] = bits_per_byte(found, report.inputs);
    out["window"] = report.inputs.window, out["windows"] = found.windows.size();
    out["tokens"] = found.scored_tokens();
  }
  const std::vector<TaskTally> tasks = tally_of(report);
  out["tasks"] = nlohmann::ordered_json::array();
  for (const TaskTally& task : tasks) {
    const Interval interval = task.interval();
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
  out["windows_s"] = found.windows_s, out["tasks_s"] = found.items_s, out["tokens_per_s"] = found.tokens_per_s();
  out["forward_s"] = found.traffic.forward_s, out["head_s"] = found.traffic.head_s;
  out["block_op_s"] = found.traffic.block_op_s;
  if (report.against) out["against"] = paired_json(report, tasks);
  return json_line(out);
}

std::string text_report(const Report& report) {
  const Evaluation& found = report.found;
  std::string out = fmt::format("{} on {} {}, {}\n\n", report.flags.model, report.flags.ranks.count,
                                report.flags.ranks.count == 1 ? "rank" : "ranks", report.modes);
  std::vector<std::vector<std::string>> rows{{"", "", "from", "to", "of"}};
  if (!found.windows.empty()) {
    const Interval interval = perplexity_interval(found.windows);
    rows.push_back({"perplexity", fmt::format("{:.3f}", perplexity(found.windows)), fmt::format("{:.3f}", interval.low),
                    fmt::format("{:.3f}", interval.high),
                    fmt::format("{} tokens in {} windows of {}; {:.4f} bits per byte", found.scored_tokens(),
                                found.windows.size(), report.inputs.window, bits_per_byte(found, report.inputs))});
  }
  const std::vector<TaskTally> tasks = tally_of(report);
  for (const TaskTally& task : tasks) {
    const Interval interval = task.interval();
    std::string note = fmt::format("{} items", task.items());
    if (task.close > 0) note += fmt::format(", {} within {:g} of the other answer", task.close, kCloseMargin);
    if (task.cut > 0) note += fmt::format(", {} contexts cut to fit", task.cut);
    rows.push_back({task.name, percent(task.accuracy()), percent(interval.low), percent(interval.high), note});
  }
  if (tasks.size() > 1) {
    const MeanAccuracy mean = mean_accuracy(tasks);
    rows.push_back({"mean accuracy", percent(mean.mean), percent(mean.mean - mean.half), percent(mean.mean + mean.half),
                    "of the tasks"});
  }
  out += draw::aligned(rows);
  if (report.against) out += paired_text(report, tasks);
  out += fmt::format("\n{:.1f} s on windows, {:.1f} s on items: {:.0f} tokens/s with {} {} per rank\n", found.windows_s,
                     found.items_s, found.tokens_per_s(), report.flags.ranks.threads,
                     report.flags.ranks.threads == 1 ? "thread" : "threads");
  return out;
}

}  // namespace weft::cli::eval
