// The ledger of one block: its rows, where they go sub-layer by sub-layer, proofs and checks.
#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"

#include "cli/ledger/report.h"

namespace weft::cli::ledger {
namespace {

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

std::string sub_layer_table(const BlockLedger& ledger) {
  std::vector<std::vector<std::string>> rows{
      {"sub-layer", "compute", "collective", "exposed: sequential", "panels", "fused", ""}};
  for (const SubLayerRow& row : folded(ledger.sub_layers)) {
    const double floor = row.of(Style::compute);
    auto& cells = rows.emplace_back(std::vector<std::string>(rows[0].size()));
    cells[0] = row.name;
    cells[1] = duration_text(floor);
    if (row.collective.empty()) continue;
    cells[2] = duration_text(row.comm_us);
    cells[3] = difference_text(row.of(Style::sequential) - floor);
    cells[4] = difference_text(row.of(Style::panels) - floor);
    cells[5] = difference_text(row.of(Style::fused) - floor);
    cells[6] = row.collective + (row.route.empty() ? "" : ", " + row.route) +
               (row.panels > 0 ? fmt::format("; {} panels", row.panels) : "");
  }
  return draw::aligned(rows);
}

std::string proof_text(const BlockLedger& ledger) {
  std::int64_t tiles = 0, actions = 0;
  double ms = 0;
  for (const PlanFacts& plan : ledger.plans) tiles += plan.tiles, actions += plan.actions, ms += plan.verify_ms;
  return fmt::format("{} {} verified in {:.2g} ms: {} tiles, {} actions, all five promises proved.\n",
                     ledger.plans.size(), ledger.plans.size() == 1 ? "plan" : "plans", ms, tiles, actions);
}

std::string weights_text(const BlockLedger& ledger) {
  if (!ledger.weights) return "";
  const WeightLoad& w = *ledger.weights;
  return fmt::format(
      "Weights came from another sharding by reshard plans, proved in {:.2g} ms: {} matrices of {}, of which {} "
      "crossed, in {} (predicted {}).\n",
      w.verify_ms, w.matrices, format_bytes(w.bytes), format_bytes(w.sent_bytes), duration_text(w.measured_us),
      duration_text(w.predicted_us));
}

std::string checked_text(const BlockLedger& ledger) {
  return fmt::format(
      "Checked: {} block output as sequential in every round; sampled sums against float64, largest error {:.1e}. {}",
      ledger.same_bits ? "fused gives the same bits of the" : "fused and panels give the same", ledger.max_rel_err,
      rounds_text(ledger.table));
}

Json weights_json(const BlockLedger& ledger) {
  if (!ledger.weights) return nullptr;
  const WeightLoad& w = *ledger.weights;
  return {{"matrices", w.matrices},         {"bytes", w.bytes},
          {"sent_bytes", w.sent_bytes},     {"measured_us", w.measured_us},
          {"predicted_us", w.predicted_us}, {"plan", w.strategy},
          {"verify_ms", w.verify_ms},       {"verified", true}};
}

Json sub_layer_json(const SubLayerRow& row) {
  Json out{{"name", row.name},
           {"collective", or_null(row.collective)},
           {"comm_route", or_null(row.comm_route)},
           {"floor_gemm", or_null(row.floor_gemm)},
           {"route", or_null(row.route)},
           {"panels", row.panels > 0 ? Json(row.panels) : Json(nullptr)},
           {"comm_us", row.collective.empty() ? Json(nullptr) : Json(row.comm_us)}};
  for (const Style style : kStyles) {
    const std::string name = json_name(to_string(style));
    out[name + "_us"] = row.of(style);
    out["predicted_" + name + "_us"] = row.predicted_us[at(style)];
  }
  return out;
}

Json plan_json(const PlanFacts& plan) {
  return {{"name", plan.name},
          {"route", plan.route},
          {"tiles", plan.tiles},
          {"actions", plan.actions},
          {"verify_ms", plan.verify_ms}};
}

}  // namespace

std::string title_of(const Workload& workload, bool scaled, int ranks, const AskedLink& link) {
  return fmt::format("{}, {} forward ({}{}), {} ranks, {}", workload.name,
                     workload.kind == WorkloadKind::dlrm ? "the model" : "one block", scaled ? "scaled down: " : "",
                     size_words(workload), ranks, link_words(link));
}

std::string text_of(const BlockLedger& ledger, const std::string& svg_path) {
  std::string out = fmt::format("\n{}\n\n{}", headline(ledger), rows_text(ledger.table));
  out += "Where it goes (mean of the ranks):\n\n" + sub_layer_table(ledger) + "\n" + crowded_text(ledger.table);
  if (!ledger.note.empty()) out += fmt::format("Note: {}.\n", ledger.note);
  out += proof_text(ledger) + weights_text(ledger) + checked_text(ledger);
  if (!svg_path.empty()) out += fmt::format("Timeline before and after: {}\n", svg_path);
  return draw::wrapped(out) + next_text(advice(ledger));
}

Json json_of(const BlockLedger& ledger, const std::string& svg_path) {
  Json out{{"workload", ledger.workload.name}, {"scaled", ledger.scaled}, {"sizes", size_words(ledger.workload)}};
  add_table(ledger.table, &out);
  const Advice next = advice(ledger);
  Json layers = Json::array(), plans = Json::array(), commands = Json::array();
  for (const SubLayerRow& row : ledger.sub_layers) layers.push_back(sub_layer_json(row));
  for (const PlanFacts& plan : ledger.plans) plans.push_back(plan_json(plan));
  for (const Advice::Command& command : next.commands) commands.push_back(command.words);
  out.update(Json{{"comm_us", ledger.comm_us},
                  {"compute_to_comm", ledger.compute_to_comm()},
                  {"aa_band", ledger.table.aa_band},
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
                  {"svg", or_null(svg_path)}});
  return out;
}

}  // namespace weft::cli::ledger
