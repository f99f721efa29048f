// One model on a text and on tasks, from files to scores, and a file of scores that a later run is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/llm/eval/eval.h"

namespace weft {

class World;

struct EvalOptions {
  std::string text, tasks;         // files; either may be empty
  std::int64_t window = 0;         // as window_length() takes it
  std::int64_t limit = 0;          // windows, and items of each task; 0: all
  Dtype activations = Dtype::f32;  // of EngineOptions
};

// The text and the items, read once for all configurations. Windows refer to the stream.
struct EvalInputs {
  std::string text_sha256, tasks_sha256;
  std::int64_t text_bytes = 0, window = 0;
  Dtype activations = Dtype::f32;
  std::vector<int> stream;
  std::vector<TokenWindow> windows;
  std::vector<TaskItem> items;
  std::vector<TaskUnit> units;
};
EvalInputs read_eval_inputs(const EvalOptions& options, const Tokenizer& tokenizer, const ModelConfig& config);

// What one configuration gave; either part may be empty.
struct Evaluation {
  std::vector<WindowScore> windows;
  std::vector<ItemScore> items;
  double windows_s = 0, items_s = 0;  // time
  std::int64_t item_rows = 0;         // rows computed for the items
  EngineTraffic traffic;              // of this rank

  std::int64_t scored_tokens() const;  // of the windows
  double tokens_per_s() const;         // of both parts
};

// Collective. `modes`: one per block; empty: all synchronised.
Evaluation evaluate(World& world, const ModelSource& source, std::span<const BlockMode> modes, const EvalInputs& inputs,
                    const EvalProgress& progress = {});

double bits_per_byte(const Evaluation& found, const EvalInputs& inputs);  // of the text

// The sums of every window and a bit for every item, with the hashes of text and tasks; format, model, ranks and spd
// file are notes for people. Loading refuses another text, window or task file.
struct EvaluationNotes {
  std::string model, spd;
  int ranks = 1;
};
void save_evaluation(const std::string& path, const EvaluationNotes& notes, const EvalInputs& inputs,
                     const Evaluation& found);
Evaluation load_evaluation(const std::string& path, const EvalInputs& inputs);  // scores alone

}  // namespace weft
