// The ledger of a whole model: how long a prompt takes until its first token over these links, in every form that Weft
// knows for the synchronisations, what each form loses in perplexity, and then text. Run by every rank; the forms take
// turns on the same prompt, each from a common start until the slowest rank has the token.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/eval/statistics.h"
#include "weft/llm/model/block_mode.h"
#include "weft/llm/model/model.h"

namespace weft {
class Tokenizer;
class World;
}  // namespace weft

namespace weft::cli {

// What is asked for, checked and read by the process that starts the ranks, and again by every rank.
struct ModelTask {
  std::string folder;
  ModelSource source;
  std::vector<int> prompt;
  std::vector<BlockMode> dropped;  // the modes of the rows with dropped synchronisations
  std::string dropped_why;         // where they come from: a file, or "every block"
  int ranks = 4, rounds = 5, new_tokens = 32;
  std::optional<Link> link;
  std::string link_name;
};

// One form: how products and all_reduces go together, and what the blocks do.
struct ModelForm {
  std::string name;  // of the row, as in JSON
  SyncForm sync = SyncForm::fused;
  std::vector<BlockMode> modes;
  bool repaired = false;  // runs the weights of the spd file
};
std::vector<ModelForm> forms_of(const ModelTask& task);

// Times in microseconds.
struct ModelRow {
  std::string name;
  std::optional<double> measured_us, predicted_us, exposed_us;
  std::optional<double> sent_bytes;  // by all ranks, for the blocks
  std::optional<PairedLoss> loss;    // growth of perplexity on held-out text
  int dropped = 0, syncs = 0;
  std::string note;
};

struct ModelLedger {
  std::string model, link_name, transport;
  ModelConfig config;
  std::optional<Link> link;
  int ranks = 1, cores = 1, rounds = 0;
  std::int64_t tokens = 0;
  Cluster cluster;
  std::vector<ModelRow> rows;
  double perplexity = 0;  // of the synchronised model
  std::int64_t scored = 0;
  double aa_band = 0;      // fused against itself
  bool same_token = true;  // every form that changes no value gave the same first token
  std::string dropped_why, prompt_end, text;
  double ms_per_token = 0;  // of the text

  const ModelRow* find(std::string_view name) const;
};

using Say = std::function<void(const std::string&)>;

// Collective. Rows with times, and text; predictions, losses and the simulated row come after.
ModelLedger measure_model(World& world, const ModelTask& task, const Tokenizer& tokenizer, const Say& say);
// From plans and the cluster's rates.
void predict_model(const ModelTask& task, ModelLedger* ledger);
// On ranks that are threads of this process, at the speed of memory: the same sums over the ranks, no link.
void measure_losses(const ModelTask& task, const std::string& text, const Tokenizer& tokenizer, const Say& say,
                    ModelLedger* ledger);

std::string model_title(const ModelTask& task);
std::string model_text(const ModelLedger& ledger);
std::string model_json(const ModelLedger& ledger);

}  // namespace weft::cli
