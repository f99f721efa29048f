// The ledger of a whole model: how long a prompt takes until its first token over these links, in every form that Weft
// knows for the synchronisations, what each form loses in perplexity, and then text. Run by every rank; the forms take
// turns on the same prompt, each from a common start until the slowest rank has the token.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/study/ledger/model_task.h"
#include "weft/study/ledger/table.h"

namespace weft {

class Tokenizer;

// What plans say of another link: where the mechanisms of the table would be worth less.
struct OnAnotherLink {
  double bytes_per_s = 0;
  double sequential_us = 0, fused_us = 0, compute_us = 0;
};

struct ModelLedger {
  std::string model;
  ModelConfig config;
  std::int64_t tokens = 0;  // of the prompt
  LedgerTable table;
  std::optional<LedgerRow> training;  // where asked for: of another floor than the table's, so not among its rows
  double perplexity = 0;              // of the synchronised model
  std::int64_t scored = 0;            // held-out tokens behind it
  bool same_token = true;             // every form that changes no value gave the same first token
  std::string dropped_why, prompt_end, text;
  std::string torch;                     // what the row of PyTorch is, or why there is none
  std::string calibration;               // a text that `weft spd analyze` can take; empty where there is none
  double ms_per_token = 0;               // of the text
  std::vector<OnAnotherLink> elsewhere;  // predicted: a tenth of the rate and ten times as much; none without a link
};

// On every rank, each in a world that `join` gives. Rank 0 gets the ledger; the others leave after the rounds.
std::optional<ModelLedger> measure_model_ledger(const ModelTask& task, const std::function<World()>& join,
                                                const Say& say);

// Its parts. Rows with times, and text; collective.
ModelLedger measure_model_rounds(World& world, const ModelTask& task, const Tokenizer& tokenizer, const Say& say);
// Predictions from plans and the cluster's rates, and the simulated row.
void predict_model(const ModelTask& task, ModelLedger* ledger);
// On ranks that are threads of this process, at the speed of memory: the same sums over the ranks, no link.
void measure_losses(const ModelTask& task, const Tokenizer& tokenizer, const Say& say, ModelLedger* ledger);

}  // namespace weft
