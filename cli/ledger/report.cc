#include "cli/ledger/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/study/peers/torch_row.h"

namespace weft::cli::ledger {
namespace {

constexpr int kBar = 34, kShortBar = 28;  // characters of the longest; short beside more columns

std::string name_of(const LedgerRow& row) {
  if (row.name == "fused_int8") return "fused + int8";
  if (row.name == "dropped") return fmt::format("fused + {} of {} dropped", row.dropped, row.dropped + row.syncs);
  if (row.name == "dropped_int8") return "fused + dropped + int8";
  if (row.name == "track_and_trigger") return "track and trigger";
  if (row.name == "at_scale") return "at scale, simulated";
  if (row.name == kTorchRow) return "PyTorch, gloo";
  if (row.name == kFloor) return "compute alone (floor)";
  return row.name;
}

// Compute, then what is exposed: `longest` is as wide as `width`.
std::string bar(double floor, double measured, double longest, int width) {
  const int whole = static_cast<int>(std::lround(measured / longest * width));
  const int solid = std::min(whole, static_cast<int>(std::lround(std::min(floor, measured) / longest * width)));
  std::string out;
  for (int i = 0; i < whole; ++i) out += i < solid ? "█" : "░";
  return out;
}

std::string cell(const std::optional<double>& us) { return us ? difference_text(*us) : "-"; }

}  // namespace

std::string difference_text(double us) { return us < -0.05 ? "-" + duration_text(-us) : duration_text(us); }

std::string rows_text(const LedgerTable& table) {
  double longest = 1;
  bool sends = false;
  for (const LedgerRow& row : table.rows) {
    longest = std::max(longest, row.measured_us.value_or(0));
    sends = sends || row.sent_bytes;
  }
  std::vector<std::vector<std::string>> rows{{"", "measured", "predicted", "exposed"}};
  if (sends) rows[0].insert(rows[0].end(), {"sent", "perplexity"});
  rows[0].push_back("");
  for (const LedgerRow& row : table.rows) {
    auto& cells = rows.emplace_back();
    cells = {name_of(row), cell(row.measured_us), cell(row.predicted_us), cell(row.exposed_us)};
    if (sends) {
      cells.push_back(row.sent_bytes.value_or(0) > 0 ? format_bytes(*row.sent_bytes) : "-");
      cells.push_back(row.loss ? fmt::format("{:+.2f} %", row.loss->loss * 100) : "-");
    }
    const double own_floor = row.measured_us ? *row.measured_us - row.exposed_us.value_or(0) : 0;
    cells.push_back(row.measured_us ? bar(own_floor, *row.measured_us, longest, sends ? kShortBar : kBar) : row.note);
  }
  return draw::aligned(rows) + "\n  █ compute   ░ exposed communication\n\n";
}

std::string crowded_text(const LedgerTable& table) {
  if (!table.crowded()) return "";
  return fmt::format("{} ranks on {} cores: they take turns, in the floor as everywhere; predictions have the same.\n",
                     table.ranks, table.cores);
}

std::string rounds_text(const LedgerTable& table) {
  return fmt::format("{} rounds, medians; the same code twice differs by {:.1f} %.\n", table.rounds,
                     table.aa_band * 100);
}

std::string next_text(const Advice& advice) {
  std::string out = "\n";
  for (const std::string& sentence : advice.sentences) out += draw::wrapped(sentence) + "\n";
  if (!advice.sentences.empty()) out += "\n";
  std::vector<std::vector<std::string>> commands;
  for (const Advice::Command& command : advice.commands) commands.push_back({command.words, command.what});
  return out + "What to try next:\n" + draw::aligned(commands);
}

std::string json_name(const std::string& style) { return style == "panels" ? "decomposed" : style; }

void add_table(const LedgerTable& table, Json* out) {
  Json rows = Json::array();
  const bool sends = !table.rows.empty() && table.rows.front().sent_bytes;
  for (const LedgerRow& row : table.rows) {
    Json& one = rows.emplace_back(Json{{"name", json_name(row.name)},
                                       {"measured_us", or_null(row.measured_us)},
                                       {"predicted_us", or_null(row.predicted_us)},
                                       {"exposed_us", or_null(row.exposed_us)}});
    if (!sends) {
      one["cpu_us"] = or_null(row.cpu_us);
      continue;
    }
    one["sent_bytes"] = or_null(row.sent_bytes);
    one["loss"] = row.loss ? Json(row.loss->loss) : Json(nullptr);
    one["loss_interval"] = row.loss ? Json{row.loss->interval.low, row.loss->interval.high} : Json(nullptr);
    one["sync_points"] = row.syncs;
    one["dropped"] = row.dropped;
  }
  (*out)["ranks"] = table.ranks;
  (*out)["cores"] = table.cores;
  (*out)["transport"] = table.transport;
  (*out)["link"] = table.link.name;
  (*out)["rounds"] = table.rounds;
  (*out)["rows"] = std::move(rows);
}

}  // namespace weft::cli::ledger
