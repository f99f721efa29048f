#include "cli/schedule/report.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/schedule/drawing.h"

namespace weft::cli::schedule {
namespace {

using nlohmann::ordered_json;
using pipeline::Bound, pipeline::Compared, pipeline::ComparedKind, pipeline::Costs, pipeline::SearchResult;

constexpr int kDrawnWidth = 110;  // the same in a terminal, a pipe and a page
constexpr int kShownPeaks = 16;

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

std::string peaks_text(const std::vector<double>& peaks) {
  std::string out;
  for (int i = 0; i < std::min(int_size(peaks), kShownPeaks); ++i)
    out += fmt::format("{}{:.4g}", i ? " " : "", peaks[at(i)]);
  return out + (int_size(peaks) > kShownPeaks ? " .." : "");
}

std::string gap_text(double seconds, const Bound& bound) {
  if (seconds <= bound.seconds * (1 + 1e-9)) return "no schedule is shorter";
  return fmt::format("at most {} above the shortest", percent(seconds / bound.seconds - 1));
}

// Whole numbers without a point: only chunks and cut micro-batches make others.
ordered_json peaks_json(const std::vector<double>& peaks) {
  auto out = ordered_json::array();
  for (const double peak : peaks)
    if (const auto whole = static_cast<std::int64_t>(peak); static_cast<double>(whole) == peak)
      out.push_back(whole);
    else
      out.push_back(peak);
  return out;
}

ordered_json summary(const Compared& one) {
  return {{"schedule", one.schedule.name},
          {"stages", one.schedule.num_stages()},
          {"micro_batches", one.schedule.num_micro_batches},
          {"chunks", one.schedule.num_chunks},
          {"time_us", one.timing.makespan_s * 1e6},
          {"throughput", one.timing.throughput()},
          {"bubble", one.timing.bubble},
          {"peak_activations", peaks_json(one.verdict.peak_activations)},
          {"peak_recomputed", peaks_json(one.verdict.peak_recomputed)}};
}

ordered_json bound_json(const Bound& bound) { return {{"time_us", bound.seconds * 1e6}, {"why", bound.why}}; }

std::string lines_of(const Compared& one, const Bound& bound) {
  std::string out =
      fmt::format("  time {}, bubble {}, {:.4g} micro-batches per second\n", format_duration(one.timing.makespan_s),
                  percent(one.timing.bubble), one.timing.throughput());
  out += fmt::format("  peak activations per stage: {}\n", peaks_text(one.verdict.peak_activations));
  if (*std::max_element(one.verdict.peak_recomputed.begin(), one.verdict.peak_recomputed.end()) > 0)
    out += fmt::format("  of those whole, the others inputs only: {}\n", peaks_text(one.verdict.peak_recomputed));
  return out + fmt::format("  bound {} ({}): {}\n", format_duration(bound.seconds), bound.why,
                           gap_text(one.timing.makespan_s, bound));
}

}  // namespace

std::string one_text(const Compared& one, const Costs& costs, const Bound& bound) {
  std::string out = fmt::format("{}, {} stages, {} micro-batches, transfers {}\n\n", one.schedule.name,
                                one.schedule.num_stages(), one.schedule.num_micro_batches, to_string(costs.transfers));
  out += pipeline::drawing(one, one.timing.makespan_s, kDrawnWidth) + pipeline::drawing_key(one) + "\n";
  return out + lines_of(one, bound);
}

std::string one_json(const Compared& one, const Costs& costs, const Bound& bound) {
  ordered_json out = summary(one);
  out["ok"] = true;
  out["transfers"] = to_string(costs.transfers);
  out["busy_us"] = ordered_json::array();
  for (const double busy : one.timing.busy_s) out["busy_us"].push_back(busy * 1e6);
  out["bound"] = bound_json(bound);
  return json_line(out);
}

std::string compare_text(const std::vector<ComparedKind>& rows, int memory) {
  std::vector<std::vector<std::string>> table{
      {"", "time", "bubble", "peak", fmt::format("within {}", memory), "bubble", "peak", ""}};
  std::string notes;
  for (const ComparedKind& row : rows) {
    table.push_back({std::string(to_string(row.kind))});
    for (const auto* one : {&row.free, &row.within}) {
      table.back().push_back(*one ? format_duration((*one)->timing.makespan_s) : "-");
      table.back().push_back(*one ? percent((*one)->timing.bubble) : "-");
      table.back().push_back(*one ? fmt::format("{:.4g}", (*one)->verdict.peak()) : "-");
    }
    table.back().push_back(row.cut > 1 ? fmt::format("micro-batches cut in {}", row.cut)
                           : row.within && row.within->schedule != row.free->schedule ? "fewer ahead"
                                                                                      : "");
    if (!row.within) notes += fmt::format("  {}\n", row.why);
  }
  return draw::aligned(table) +
         fmt::format("  peak: activations on the stage that holds most; `within {}`: no stage holds more\n", memory) +
         notes;
}

std::string compare_json(const std::vector<ComparedKind>& rows, int memory) {
  ordered_json out{{"memory", memory}, {"rows", ordered_json::array()}};
  for (const ComparedKind& row : rows) {
    ordered_json one{{"kind", to_string(row.kind)}, {"free", nullptr}, {"within", nullptr}, {"why", row.why}};
    if (row.free) one["free"] = summary(*row.free);
    if (row.within) one["within"] = summary(*row.within);
    if (row.within) one["within"]["cut"] = row.cut;
    out["rows"].push_back(std::move(one));
  }
  return json_line(out);
}

std::string search_text(const SearchResult& found, const Compared& one, int memory) {
  std::string out =
      fmt::format("search over {} stages, {} micro-batches, {}: {} schedules looked at\n\n", one.schedule.num_stages(),
                  one.schedule.num_micro_batches,
                  memory > 0 ? fmt::format("at most {} activations per stage", memory) : "any memory", found.looked_at);
  std::vector<std::vector<std::string>> table{{"", "time", "peak"}};
  for (const pipeline::NamedTime& named : found.named)
    table.push_back({named.schedule.name, format_duration(named.seconds), fmt::format("{:.4g}", named.peak)});
  table.push_back({"found", format_duration(found.seconds), fmt::format("{:.4g}", found.peak)});
  out += draw::aligned(table, draw::Last::number) + "\n" + pipeline::drawing(one, one.timing.makespan_s, kDrawnWidth) +
         pipeline::drawing_key(one) + "\n";
  out += fmt::format("  found from: {}\n  {:.3f} x the best named one\n", found.found,
                     found.named.front().seconds / found.seconds);
  return out + lines_of(one, found.bound);
}

std::string search_json(const SearchResult& found, const Compared& one, int memory) {
  ordered_json out = summary(one);
  out["ok"] = true;
  out["memory"] = memory;
  out["named"] = ordered_json::array();
  for (const pipeline::NamedTime& named : found.named)
    out["named"].push_back({{"schedule", named.schedule.name}, {"time_us", named.seconds * 1e6}, {"peak", named.peak}});
  out["found"] = found.found;
  out["speedup"] = found.named.front().seconds / found.seconds;
  out["bound"] = bound_json(found.bound);
  out["optimal"] = found.optimal;
  out["looked_at"] = found.looked_at;
  return json_line(out);
}

std::string preset_text(const PipelinePreset& preset, const PresetTable& table) {
  const double slowest = *std::max_element(preset.forward_s.begin(), preset.forward_s.end()) * (1 + preset.backward);
  std::string out =
      fmt::format("{}: {} stages, {} micro-batches, {} forward + backward on the slowest stage; predictions\n\n",
                  preset.name, preset.num_stages(), preset.micro_batches, format_duration(slowest));
  std::vector<std::vector<std::string>> cells{{"", "transfer", "step", "x send_recv", "bubble", "peak"}};
  for (const PresetRow& row : table.rows)
    cells.push_back({row.name, format_duration(row.costs.stages.front().send_forward_s), format_duration(row.seconds),
                     fmt::format("{:.2f}", table.rows.front().seconds / row.seconds), percent(row.bubble),
                     fmt::format("{:.4g}", row.peak)});
  return out + draw::aligned(cells, draw::Last::number) +
         fmt::format("  no schedule of the overlapped broadcast within that memory is shorter than {}\n",
                     format_duration(table.bound.seconds));
}

std::string presets_json(const std::vector<std::pair<PipelinePreset, PresetTable>>& all) {
  ordered_json out{{"presets", ordered_json::array()}};
  for (const auto& [preset, table] : all) {
    ordered_json one{{"name", preset.name},
                     {"source", preset.source},
                     {"stages", preset.num_stages()},
                     {"micro_batches", preset.micro_batches},
                     {"forward_us", ordered_json::array()},
                     {"bound", bound_json(table.bound)},
                     {"rows", ordered_json::array()}};
    for (const double seconds : preset.forward_s) one["forward_us"].push_back(seconds * 1e6);
    for (const PresetRow& row : table.rows)
      one["rows"].push_back({{"name", row.name},
                             {"schedule", row.schedule.name},
                             {"transfers", to_string(row.costs.transfers)},
                             {"transfer_us", row.costs.stages.front().send_forward_s * 1e6},
                             {"transfer_back_us", row.costs.stages.front().send_backward_s * 1e6},
                             {"time_us", row.seconds * 1e6},
                             {"speedup", table.rows.front().seconds / row.seconds},
                             {"bubble", row.bubble},
                             {"peak", row.peak}});
    out["presets"].push_back(std::move(one));
  }
  return json_line(out);
}

std::string refused_text(const pipeline::Schedule& schedule, const pipeline::Verdict& verdict) {
  return fmt::format("refused: schedule \"{}\" cannot run\n  {}\n", schedule.name, fmt::join(verdict.problems, "\n  "));
}

std::string refused_json(const pipeline::Schedule& schedule, const pipeline::Verdict& verdict) {
  return json_line(ordered_json{{"schedule", schedule.name}, {"ok", false}, {"problems", verdict.problems}});
}

}  // namespace weft::cli::schedule
