// What a model's ledger is asked for: the model, its prompt, and the forms in which its synchronisations are made. Read
// by the process that starts the ranks, so that it refuses early, and again by every rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/llm/engine/engine.h"
#include "weft/llm/model/block_mode.h"
#include "weft/llm/model/model.h"
#include "weft/study/ledger/table.h"

namespace weft {

using Say = std::function<void(const std::string&)>;  // what is being done; empty: nothing

struct ModelTaskOptions {
  std::string model = "weft-16";  // a name in models/, or a folder
  std::string spd;                // what to drop; empty: FOLDER/spd/tp<ranks>.spd, or every block
  std::string prompt;             // its first tokens are the prompt; empty: FOLDER/prompt.txt, or the text
  std::string text;               // what losses are measured on; empty: FOLDER/heldout.txt
  int tokens = 512;               // of the prompt
  int ranks = 4, rounds = 5;
  bool train = false;  // a row of training too
  AskedLink link;
};

struct ModelTask {
  std::string folder, text_path;
  ModelSource source;
  std::vector<int> prompt;
  std::vector<BlockMode> dropped;  // the modes of the rows with dropped synchronisations
  std::string dropped_why;         // where they come from: a file, or "every block"
  int ranks = 4, rounds = 5, new_tokens = 32;
  bool train = false;
  AskedLink link;
};

// Throws bad_input where a name means nothing or a file cannot serve.
ModelTask open_model_task(const ModelTaskOptions& options);
std::string task_text(const ModelTask& task);  // what losses are measured on

// One form: how products and all_reduces go together, and what the blocks do.
struct ModelForm {
  std::string name;  // of its row
  Style sync = Style::fused;
  std::vector<BlockMode> modes;
  bool repaired = false;  // runs the weights of the spd file
};
// In the order of the rows: sequential, panels and fused, which compute the same values; what sends less; the floor.
std::vector<ModelForm> forms_of(const ModelTask& task);
bool keeps_values(const ModelForm& form);  // its values are the model's own

}  // namespace weft
