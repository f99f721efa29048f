// The ledger of a whole model: its rows, what they lose, and a text.
#include <fmt/core.h>

#include "weft/draw/text_table.h"
#include "weft/study/peers/torch_row.h"

#include "cli/ledger/report.h"

namespace weft::cli::ledger {
namespace {

std::string loss_text(const ModelLedger& ledger) {
  if (ledger.scored == 0) return "";
  return fmt::format(
      "Perplexity {:.2f} over {} held-out tokens; the column says by how much a row is worse. Dropped: {}.\n",
      ledger.perplexity, ledger.scored, ledger.dropped_why);
}

std::string training_text(const ModelLedger& ledger) {
  if (!ledger.training) return "";
  const LedgerRow& row = *ledger.training;
  return fmt::format("Training: {} ({} predicted), {} of it exposed: {}.\n", difference_text(*row.measured_us),
                     difference_text(*row.predicted_us), difference_text(*row.exposed_us), row.note);
}

std::string torch_text(const ModelLedger& ledger) {
  return fmt::format("PyTorch, gloo: {}{}.\n", ledger.table.find(kTorchRow) == nullptr ? "no row, for " : "",
                     ledger.torch);
}

}  // namespace

std::string title_of(const ModelTask& task) {
  const ModelConfig& c = task.source.config;
  return fmt::format("{} ({:.1f} M parameters, {} blocks of width {}), a prompt of {} tokens, {} ranks, {}",
                     task.folder, num_parameters(c) * 1e-6, c.blocks, c.hidden, task.prompt.size(), task.ranks,
                     link_words(task.link));
}

std::string text_of(const ModelLedger& ledger) {
  const std::string limits = limits_of(ledger);
  const std::string out = fmt::format("\n{}\n\n{}", headline(ledger), rows_text(ledger.table)) + loss_text(ledger) +
                          training_text(ledger) + torch_text(ledger) + crowded_text(ledger.table) +
                          (limits.empty() ? "" : limits + "\n") +
                          fmt::format("Checked: sequential, panels and fused give the same first token{}. {}",
                                      ledger.same_token ? "" : " (NOT so here)", rounds_text(ledger.table)) +
                          fmt::format("\nText, with synchronisations dropped ({:.1f} ms per token):\n  ... {}|{}\n",
                                      ledger.ms_per_token, ledger.prompt_end, ledger.text);
  return draw::wrapped(out) + next_text(advice(ledger));
}

Json json_of(const ModelLedger& ledger) {
  Json out{{"model", ledger.model}, {"tokens", ledger.tokens}};
  add_table(ledger.table, &out);
  if (ledger.training)
    out["rows"].push_back({{"name", ledger.training->name},
                           {"measured_us", *ledger.training->measured_us},
                           {"predicted_us", *ledger.training->predicted_us},
                           {"exposed_us", *ledger.training->exposed_us},
                           {"note", ledger.training->note}});
  out.update(Json{{"perplexity", ledger.perplexity},
                  {"scored_tokens", ledger.scored},
                  {"dropped_from", ledger.dropped_why},
                  {"aa_band", ledger.table.aa_band},
                  {"same_token", ledger.same_token},
                  {"torch", or_null(ledger.torch)},
                  {"text", ledger.text},
                  {"ms_per_token", ledger.ms_per_token},
                  {"headline", headline(ledger)},
                  {"limits", limits_of(ledger)}});
  return out;
}

}  // namespace weft::cli::ledger
