#include "cli/ledger/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"
#include "weft/transport/local/shm.h"

#include "cli/table.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBar = 34;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string name_of(const LedgerRow& row) {
  if (row.name == "decomposed") return "by hand, in panels";
  if (row.name == "compute") return "compute alone (floor)";
  if (row.name == "track_and_trigger") return "track and trigger";
  return row.name;
}

std::string main_table(const Ledger& ledger) {
  double longest = 1;
  for (const LedgerRow& row : ledger.rows) longest = std::max(longest, row.measured_us.value_or(0));
  std::vector<std::vector<std::string>> rows{{"", "measured", "predicted", "exposed", ""}};
  const auto cell = [](const std::optional<double>& us) { return us ? difference_cell(*us) : "-"; };
  for (const LedgerRow& row : ledger.rows)
    rows.push_back(
        {name_of(row), cell(row.measured_us), cell(row.predicted_us), cell(row.exposed_us),
         row.measured_us ? ledger_bar(ledger.measured(Style::compute), *row.measured_us, longest, kBar) : row.note});
  return aligned(rows);
}

// A long list is shortened where nothing is exchanged: neighbours without a collective become one row.
std::vector<SubLayerRow> folded(const std::vector<SubLayerRow>& rows) {
  if (rows.size() <= 8) return rows;
  std::vector<SubLayerRow> out;
  std::string first;
  for (const SubLayerRow& row : rows) {
    if (!row.collective.empty() || out.empty() || !out.back().collective.empty()) {
      out.push_back(row);
      first = row.name;
      continue;
    }
    out.back().name = fmt::format("{} to {}", first, row.name);
    for (std::size_t i = 0; i < row.us.size(); ++i) out.back().us[i] += row.us[i];
  }
  return out;
}

std::string sub_layer_table(const Ledger& ledger) {
  std::vector<std::vector<std::string>> rows{
      {"sub-layer", "compute", "collective", "exposed: sequential", "in panels", "fused", ""}};
  for (const SubLayerRow& row : folded(ledger.sub_layers)) {
    const double floor = row.of(Style::compute);
    if (row.collective.empty()) {
      rows.push_back({row.name, duration_cell(floor), "", "", "", "", ""});
      continue;
    }
    rows.push_back({row.name, duration_cell(floor), duration_cell(row.comm_us),
                    difference_cell(row.of(Style::sequential) - floor),
                    difference_cell(row.of(Style::decomposed) - floor), difference_cell(row.of(Style::fused) - floor),
                    fmt::format("{}{}{}", row.collective, row.route.empty() ? "" : ", " + row.route,
                                row.panels > 0 ? fmt::format("; {} panels", row.panels) : "")});
  }
  return aligned(rows);
}

std::string proof_text(const Ledger& ledger) {
  std::int64_t tiles = 0, actions = 0;
  double ms = 0;
  for (const PlanFacts& plan : ledger.plans) tiles += plan.tiles, actions += plan.actions, ms += plan.verify_ms;
  return fmt::format("{} {} verified in {:.2g} ms: {} tiles, {} actions, all five promises proved.\n",
                     ledger.plans.size(), ledger.plans.size() == 1 ? "plan" : "plans", ms, tiles, actions);
}

// "Weights, 217 MB in 4 matrices, came ...".
std::string weights_text(const Ledger& ledger) {
  if (!ledger.weights) return "";
  const WeightLoad& w = *ledger.weights;
  return fmt::format(
      "Weights came from another sharding by reshard plans, proved in {:.2g} ms: {} matrices of {}, of which {} "
      "crossed, in "
      "{} (predicted {}).\n",
      w.verify_ms, w.matrices, format_bytes(w.bytes), format_bytes(w.sent_bytes), duration_cell(w.measured_us),
      duration_cell(w.predicted_us));
}

Json weights_json(const Ledger& ledger) {
  if (!ledger.weights) return nullptr;
  const WeightLoad& w = *ledger.weights;
  return {{"matrices", w.matrices},         {"bytes", w.bytes},
          {"sent_bytes", w.sent_bytes},     {"measured_us", w.measured_us},
          {"predicted_us", w.predicted_us}, {"plan", w.strategy},
          {"verify_ms", w.verify_ms},       {"verified", true}};
}

std::string checked_text(const Ledger& ledger) {
  return fmt::format(
      "Checked: {} block output as sequential in every round; sampled sums against float64, largest error "
      "{:.1e}. {} rounds, medians; the same code twice differs by {:.1f} %.\n",
      ledger.same_bits ? "fused gives the same bits of the" : "fused and decomposed give the same", ledger.max_rel_err,
      ledger.rounds, ledger.aa_band * 100);
}

Json sub_layer_json(const SubLayerRow& row) {
  Json out{{"name", row.name},
           {"collective", or_null(row.collective)},
           {"comm_route", or_null(row.comm_route)},
           {"route", or_null(row.route)},
           {"panels", row.panels > 0 ? Json(row.panels) : Json(nullptr)},
           {"comm_us", row.collective.empty() ? Json(nullptr) : Json(row.comm_us)}};
  for (const Style style : kStyles) {
    out[fmt::format("{}_us", to_string(style))] = row.of(style);
    out[fmt::format("predicted_{}_us", to_string(style))] = row.predicted_us[static_cast<std::size_t>(style)];
  }
  return out;
}

}  // namespace

std::string duration_cell(double us) { return us < 0.05 ? "0 us" : format_duration(us * 1e-6); }
std::string difference_cell(double us) { return us < -0.05 ? "-" + duration_cell(-us) : duration_cell(us); }

std::string ledger_bar(double floor, double measured, double longest, int width) {
  const int whole = static_cast<int>(std::lround(measured / longest * width));
  const int solid = std::min(whole, static_cast<int>(std::lround(std::min(floor, measured) / longest * width)));
  std::string out;
  for (int i = 0; i < whole; ++i) out += i < solid ? "█" : "░";
  return out;
}

std::string link_text(const std::optional<Link>& link) {
  if (!link) return launched_on_several_hosts() ? "the network between their hosts" : "shared memory";
  const double bits = link->bytes_per_s * 8;
  const std::string rate =
      bits >= 1e9 ? fmt::format("{:.4g} Gbit/s", bits * 1e-9) : fmt::format("{:.4g} Mbit/s", bits * 1e-6);
  return link->latency_s > 0 ? fmt::format("{}, {}", rate, format_duration(link->latency_s)) : rate;
}

std::string sizes_text(const Workload& w) {
  if (w.kind == WorkloadKind::dlrm)
    return fmt::format("{} samples, {} tables of at most {} rows of {}", w.batch, w.rows.size(),
                       *std::max_element(w.rows.begin(), w.rows.end()), w.dim);
  std::string out = fmt::format("{} tokens, hidden {}, ffn {}", w.tokens(), w.hidden, w.ffn);
  if (w.kind == WorkloadKind::moe) out += fmt::format(", {} of {} experts", w.top_k, w.experts);
  return out;
}

std::string ledger_title(const Workload& workload, bool scaled, int ranks, const std::optional<Link>& link) {
  return fmt::format("{}, {} forward ({}{}), {} ranks, {}", workload.name,
                     workload.kind == WorkloadKind::dlrm ? "the model" : "one block", scaled ? "scaled down: " : "",
                     sizes_text(workload), ranks, (link ? "links of " : "") + link_text(link));
}

std::string headline(const Ledger& ledger) {
  const double sequential = ledger.measured(Style::sequential), exposed = ledger.exposed(Style::sequential),
               left = ledger.exposed(Style::fused);
  const double noise = ledger.aa_band * sequential;
  if (exposed <= noise)
    return fmt::format("Communication takes less than this machine's noise ({:.1f} %) of {}: there is nothing to hide.",
                       ledger.aa_band * 100, duration_cell(sequential));
  return fmt::format("Communication takes {} of {}; fused leaves {} of it exposed, panels by hand {}.",
                     duration_cell(exposed), duration_cell(sequential), duration_cell(std::max(0.0, left)),
                     duration_cell(std::max(0.0, ledger.exposed(Style::decomposed))));
}

std::string ledger_text(const Ledger& ledger, const std::string& svg_path) {
  std::string out = fmt::format("\n{}\n\n{}", headline(ledger), main_table(ledger));
  out += "\n  █ compute   ░ exposed communication\n\n";
  out += "Where it goes (mean of the ranks):\n\n" + sub_layer_table(ledger) + "\n";
  if (ledger.crowded())
    out +=
        fmt::format("{} ranks on {} cores: they take turns, in the floor as everywhere; predictions have the same.\n",
                    ledger.ranks, ledger.cores);
  if (!ledger.note.empty()) out += fmt::format("Note: {}.\n", ledger.note);
  out += proof_text(ledger) + weights_text(ledger) + checked_text(ledger);
  if (!svg_path.empty()) out += fmt::format("Timeline before and after: {}\n", svg_path);
  const Advice next = advice(ledger);
  out += "\n";
  for (const std::string& sentence : next.sentences) out += sentence + "\n";
  std::vector<std::vector<std::string>> commands;
  for (const auto& [command, what] : next.commands) commands.push_back({command, what});
  return out + "\nWhat to try next:\n" + aligned(commands);
}

std::string ledger_json(const Ledger& ledger, const std::string& svg_path) {
  Json rows = Json::array(), layers = Json::array(), plans = Json::array();
  for (const LedgerRow& row : ledger.rows)
    rows.push_back({{"name", row.name},
                    {"measured_us", or_null(row.measured_us)},
                    {"predicted_us", or_null(row.predicted_us)},
                    {"exposed_us", or_null(row.exposed_us)},
                    {"cpu_us", or_null(row.cpu_us)}});
  for (const SubLayerRow& row : ledger.sub_layers) layers.push_back(sub_layer_json(row));
  for (const PlanFacts& plan : ledger.plans)
    plans.push_back({{"name", plan.name},
                     {"route", plan.route},
                     {"tiles", plan.tiles},
                     {"actions", plan.actions},
                     {"verify_ms", plan.verify_ms}});
  const Advice next = advice(ledger);
  Json commands = Json::array();
  for (const auto& [command, what] : next.commands) commands.push_back(command);
  const Json out{{"workload", ledger.workload.name},
                 {"scaled", ledger.scaled},
                 {"sizes", sizes_text(ledger.workload)},
                 {"ranks", ledger.ranks},
                 {"cores", ledger.cores},
                 {"transport", ledger.transport},
                 {"link", ledger.link_name},
                 {"rounds", ledger.rounds},
                 {"rows", rows},
                 {"comm_us", ledger.comm_us},
                 {"compute_to_comm", ledger.compute_to_comm()},
                 {"aa_band", ledger.aa_band},
                 {"sub_layers", layers},
                 {"plans", plans},
                 {"weights", weights_json(ledger)},
                 {"verified", true},
                 {"max_rel_err", ledger.max_rel_err},
                 {"same_bits", ledger.same_bits},
                 {"note", or_null(ledger.note)},
                 {"headline", headline(ledger)},
                 {"advice", next.sentences},
                 {"next", commands},
                 {"svg", or_null(svg_path)}};
  return out.dump() + "\n";
}

}  // namespace weft::cli
