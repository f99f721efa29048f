// A model's ledger for people and for programs.
#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"

#include "cli/ledger/model_ledger.h"
#include "cli/ledger/report.h"
#include "cli/table.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kModelBar = 28;

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::string name_of(const ModelRow& row, const ModelLedger& ledger) {
  if (row.name == "decomposed") return "by hand, in panels";
  if (row.name == "fused_int8") return "fused + int8";
  if (row.name == "dropped") return fmt::format("fused + {} of {} dropped", row.dropped, 2 * ledger.config.blocks);
  if (row.name == "dropped_int8") return "fused + dropped + int8";
  if (row.name == "track_and_trigger") return "track and trigger";
  if (row.name == "compute") return "compute alone (floor)";
  return row.name;
}

std::string table(const ModelLedger& ledger) {
  double longest = 1;
  for (const ModelRow& row : ledger.rows) longest = std::max(longest, row.measured_us.value_or(0));
  const double floor = ledger.find("compute")->measured_us.value_or(0);
  std::vector<std::vector<std::string>> rows{{"", "measured", "predicted", "exposed", "sent", "perplexity", ""}};
  const auto cell = [](const std::optional<double>& us) { return us ? difference_cell(*us) : "-"; };
  for (const ModelRow& row : ledger.rows)
    rows.push_back({name_of(row, ledger), cell(row.measured_us), cell(row.predicted_us), cell(row.exposed_us),
                    row.sent_bytes && *row.sent_bytes > 0 ? format_bytes(*row.sent_bytes) : "-",
                    row.loss ? fmt::format("{:+.2f} %", row.loss->loss * 100) : "-",
                    row.measured_us ? ledger_bar(floor, *row.measured_us, longest, kModelBar) : row.note});
  return aligned(rows);
}

std::string headline(const ModelLedger& ledger) {
  const ModelRow *sequential = ledger.find("sequential"), *fused = ledger.find("fused"),
                 *dropped = ledger.find("dropped_int8");
  return fmt::format(
      "Until the first token: {} as products and all-reduces one after another, {} fused, {} fused with {} of {} "
      "synchronisations dropped and int8 on the wire.",
      duration_cell(*sequential->measured_us), duration_cell(*fused->measured_us), duration_cell(*dropped->measured_us),
      dropped->dropped, 2 * ledger.config.blocks);
}

std::string loss_text(const ModelLedger& ledger) {
  if (ledger.scored == 0) return "";
  return fmt::format(
      "Perplexity {:.2f} over {} held-out tokens; the column says by how much a row is worse. Dropped: {}.\n",
      ledger.perplexity, ledger.scored, ledger.dropped_why);
}

}  // namespace

std::string model_title(const ModelTask& task) {
  const ModelConfig& c = task.source.config;
  return fmt::format("{} ({:.1f} M parameters, {} blocks of width {}), a prompt of {} tokens, {} ranks, {}",
                     task.folder, static_cast<double>(num_parameters(c)) * 1e-6, c.blocks, c.hidden, task.prompt.size(),
                     task.ranks, (task.link ? "links of " : "") + link_text(task.link));
}

std::string model_text(const ModelLedger& ledger) {
  std::string out = fmt::format("\n{}\n\n{}", headline(ledger), table(ledger));
  out += "\n  █ compute   ░ exposed communication\n\n";
  out += loss_text(ledger);
  if (ledger.ranks > ledger.cores)
    out +=
        fmt::format("{} ranks on {} cores: they take turns, in the floor as everywhere; predictions have the same.\n",
                    ledger.ranks, ledger.cores);
  out += fmt::format(
      "Checked: sequential, panels and fused give the same first token{}. {} rounds, medians; the same "
      "code twice differs by {:.1f} %.\n",
      ledger.same_token ? "" : " (NOT so here)", ledger.rounds, ledger.aa_band * 100);
  out += fmt::format("\nText, with synchronisations dropped ({:.1f} ms a token):\n  ... {}|{}\n", ledger.ms_per_token,
                     ledger.prompt_end, ledger.text);
  const std::string model = ledger.model;
  out += "\nWhat to try next:\n";
  return out + aligned({{fmt::format("build/weft generate --model {} --ranks 2 --prompt 'The'", model),
                         "text, token by token"},
                        {fmt::format("build/weft spd analyze --model {} --tp {} --max-loss 1%", model, ledger.ranks),
                         "which synchronisations this model can spare"},
                        {fmt::format("build/weft ledger --model {} --link 1gbit,10us", model),
                         "a faster link: is dropping still worth it?"},
                        {"build/weft ledger --workload t-nlg", "one block of a large model, sub-layer by sub-layer"}});
}

std::string model_json(const ModelLedger& ledger) {
  Json rows = Json::array();
  for (const ModelRow& row : ledger.rows)
    rows.push_back({{"name", row.name},
                    {"measured_us", number_or_null(row.measured_us)},
                    {"predicted_us", number_or_null(row.predicted_us)},
                    {"exposed_us", number_or_null(row.exposed_us)},
                    {"sent_bytes", number_or_null(row.sent_bytes)},
                    {"loss", row.loss ? Json(row.loss->loss) : Json(nullptr)},
                    {"loss_interval", row.loss ? Json{row.loss->interval.low, row.loss->interval.high} : Json(nullptr)},
                    {"sync_points", row.syncs},
                    {"dropped", row.dropped}});
  const Json out{{"model", ledger.model},
                 {"tokens", ledger.tokens},
                 {"ranks", ledger.ranks},
                 {"cores", ledger.cores},
                 {"transport", ledger.transport},
                 {"link", ledger.link_name},
                 {"rounds", ledger.rounds},
                 {"rows", rows},
                 {"perplexity", ledger.perplexity},
                 {"scored_tokens", ledger.scored},
                 {"dropped_from", ledger.dropped_why},
                 {"aa_band", ledger.aa_band},
                 {"same_token", ledger.same_token},
                 {"text", ledger.text},
                 {"ms_per_token", ledger.ms_per_token},
                 {"headline", headline(ledger)}};
  return out.dump() + "\n";
}

}  // namespace weft::cli
