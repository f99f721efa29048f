// What `weft spd analyze` prints.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"

#include "cli/spd/analyze.h"

namespace weft::cli::spd {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered chosen_json(const Analyzed& found) {
  const ChosenModes& c = *found.chosen;
  Ordered out{{"max_loss", c.max_loss},
              {"modes", summary(c.modes)},
              {"calibration_loss", c.calibration_loss},
              {"heldout_loss", c.held_out.loss.loss},
              {"heldout_low", c.held_out.loss.interval.low},
              {"heldout_high", c.held_out.loss.interval.high},
              {"heldout_perplexity", perplexity(c.held_out.chosen)},
              {"heldout_perplexity_sync", perplexity(c.held_out.plain)},
              {"went_back", c.went_back},
              {"searched", c.searched},
              {"confirmed", c.confirmed},
              {"gains", no_gain(c.modes, found.sync_s, found.chosen_s).empty()},
              {"sync_us", found.sync_s * 1e6},
              {"chosen_us", found.chosen_s * 1e6},
              {"predicted_us", (found.times[0].forward_s - c.predicted_saved_s) * 1e6}};
  out["tasks"] = Ordered::array();
  for (const TaskChange& task : c.held_out.tasks)
    out["tasks"].push_back({{"name", task.name},
                            {"accuracy_sync", task.plain_accuracy},
                            {"accuracy", task.plain_accuracy + task.pair.difference},
                            {"difference", task.pair.difference},
                            {"low", task.pair.interval.low},
                            {"high", task.pair.interval.high},
                            {"p", task.pair.p}});
  return out;
}

std::string chosen_text(const AnalyzeFlags& flags, const Analyzed& found) {
  const ChosenModes& c = *found.chosen;
  std::string out = fmt::format("\nmodes, all blocks alike, {} rows over {}:\n", flags.times.rows,
                                flags.link.empty() ? "shm" : flags.link);
  std::vector<std::vector<std::string>> rows;
  for (const ModeTime& time : found.times)
    rows.push_back({std::string(to_string(time.mode)), format_duration(time.forward_s),
                    fmt::format("{:+.1f} %", 100 * (time.forward_s / found.times[0].forward_s - 1))});
  out += draw::aligned(rows, draw::Last::number);
  out += fmt::format("\nchosen for a loss of at most {}: {}\n", flags.max_loss, summary(c.modes));
  out += draw::aligned(
      {{"time", fmt::format("{} instead of {} ({:+.1f} %), predicted {}", format_duration(found.chosen_s),
                            format_duration(found.sync_s), 100 * (found.chosen_s / found.sync_s - 1),
                            format_duration(found.times[0].forward_s - c.predicted_saved_s))},
       {"loss, calibration", fmt::format("{:+.2f} % perplexity", 100 * c.calibration_loss)},
       {"loss, held out",
        fmt::format("{:+.2f} % perplexity [{:+.2f}, {:+.2f}], {:.3f} instead of {:.3f}{}", 100 * c.held_out.loss.loss,
                    100 * c.held_out.loss.interval.low, 100 * c.held_out.loss.interval.high,
                    perplexity(c.held_out.chosen), perplexity(c.held_out.plain),
                    c.went_back ? "; fewer moves than on calibration text" : "")},
       {"search", fmt::format("{} evaluations on calibration text, {} on held-out text", c.searched, c.confirmed)}});
  if (const std::string sentence = no_gain(c.modes, found.sync_s, found.chosen_s); !sentence.empty())
    out += "  " + sentence + "\n";
  for (const TaskChange& task : c.held_out.tasks)
    out += fmt::format("  {}: {:+.2f} points [{:+.2f}, {:+.2f}] of {:.2f} %, p {:.4f}\n", task.name,
                       100 * task.pair.difference, 100 * task.pair.interval.low, 100 * task.pair.interval.high,
                       100 * task.plain_accuracy, task.pair.p);
  return out;
}

}  // namespace

std::string analyze_json(const AnalyzeFlags& flags, const Analyzed& found) {
  Ordered out{{"model", flags.options.model},
              {"tp", flags.tp},
              {"window", found.window},
              {"calibration_windows", found.calibration_windows},
              {"heldout_windows", found.heldout_windows},
              {"perplexity", found.sensitivity.perplexity_from.back()},
              {"perplexity_from", found.sensitivity.perplexity_from},
              {"tau1", flags.thresholds.tau1},
              {"tau2", flags.thresholds.tau2}};
  out["blocks"] = Ordered::array();
  for (std::size_t b = 0; b < found.sensitivity.s.size(); ++b) {
    const double s = found.sensitivity.s[b];
    Ordered block{{"index", b}, {"sensitivity", s}, {"class", to_string(class_of(s, flags.thresholds))}};
    if (!found.repaired.empty()) block["repaired"] = static_cast<bool>(found.repaired[b]);
    if (found.chosen) block["mode"] = to_string(found.chosen->modes[b]);
    out["blocks"].push_back(block);
  }
  out["order"] = found.order;
  out["curve"] = found.curve;
  out["times"] = Ordered::array();
  for (const ModeTime& time : found.times)
    out["times"].push_back({{"mode", to_string(time.mode)}, {"forward_us", time.forward_s * 1e6}});
  out["chosen"] = nullptr;
  if (found.chosen) out["chosen"] = chosen_json(found);
  out["evaluations"] = found.evaluations;
  out["seconds"] = found.seconds;
  return json_line(out);
}

std::string analyze_text(const AnalyzeFlags& flags, const Analyzed& found) {
  const auto& from = found.sensitivity.perplexity_from;
  std::string out =
      fmt::format("{} at {} ranks, {} windows of {} tokens: perplexity {:.3f}, all dropped {:.3f}\n\n",
                  flags.options.model, flags.tp, found.calibration_windows, found.window, from.back(), from[0]);
  std::vector<std::vector<std::string>> rows{{"block", "S", "class"}};
  if (found.chosen) rows[0].emplace_back("mode");
  int counts[3] = {0, 0, 0};
  for (std::size_t b = 0; b < found.sensitivity.s.size(); ++b) {
    const double s = found.sensitivity.s[b];
    const BlockClass kind = class_of(s, flags.thresholds);
    ++counts[static_cast<int>(kind)];
    rows.push_back({std::to_string(b), fmt::format("{:.4f}", s), std::string(to_string(kind))});
    if (found.chosen) rows.back().emplace_back(to_string(found.chosen->modes[b]));
  }
  out += draw::aligned(rows);
  out += fmt::format("  {} ISB (S up to {}), {} SB (up to {}), {} ESB\n", counts[0], flags.thresholds.tau1, counts[1],
                     flags.thresholds.tau2, counts[2]);
  if (!found.curve.empty()) {
    out += "\ndropped in order of S:\n";
    std::vector<std::vector<std::string>> curve{{"blocks", "perplexity", "loss", "the last one"}};
    for (std::size_t n = 0; n < found.curve.size(); ++n)
      curve.push_back({std::to_string(n), fmt::format("{:.3f}", found.curve[n]),
                       fmt::format("{:+.2f} %", 100 * (found.curve[n] / found.curve[0] - 1)),
                       n == 0 ? "" : fmt::format("block {}", found.order[n - 1])});
    out += draw::aligned(curve);
  }
  if (found.chosen) out += chosen_text(flags, found);
  if (!flags.out.empty()) {
    const bool gains = !found.chosen || no_gain(found.chosen->modes, found.sync_s, found.chosen_s).empty();
    out += fmt::format("\nwritten to {}{}\n", flags.out, gains ? "" : ", which gains nothing here");
  }
  out += fmt::format("\n{} evaluations in {:.0f} s\n", found.evaluations, found.seconds);
  return out;
}

}  // namespace weft::cli::spd
