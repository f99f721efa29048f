// `weft eval`: what is asked, what was found, and how it is kept in a file for a later comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/llm/eval/eval.h"
#include "weft/llm/eval/statistics.h"
#include "weft/llm/eval/tasks.h"
#include "weft/llm/spd/spd_file.h"

#include "cli/rank_flags.h"

namespace weft::cli {

struct EvalFlags {
  std::string model, spd, text, tasks, against, save;
  RankFlags ranks{.threads = 0};  // 0 threads: the cores there are, shared
  std::int64_t limit = 0, window = 0;
  bool json = false;
};

// The text and the items, read once for all configurations.
struct EvalInputs {
  std::string text_path, text_sha256, tasks_path, tasks_sha256;
  std::int64_t text_bytes = 0, window = 0;
  std::vector<int> stream;
  std::vector<TokenWindow> windows;
  std::vector<TaskItem> items;
  std::vector<TaskUnit> units;
};
EvalInputs read_inputs(const EvalFlags& flags, const ModelConfig& config);

// What one configuration gave; either part may be empty.
struct EvalFound {
  std::vector<WindowScore> windows;
  std::vector<ItemScore> items;
  double windows_s = 0, items_s = 0;  // time
  std::int64_t item_rows = 0;         // rows computed for the items
  EngineTraffic traffic;              // of rank 0
};
EvalFound evaluate(World& world, const EvalFlags& flags, const EvalInputs& inputs, const std::optional<SpdFile>& spd,
                   const EvalProgress& progress);

// --save FILE and --against FILE.json: the sums of every window and a bit for every item, with the hashes of text and tasks.
void save_found(const std::string& path, const EvalFlags& flags, const EvalInputs& inputs, const EvalFound& found);
EvalFound load_found(const std::string& path, const EvalInputs& inputs);  // refuses another text, window or task file

struct EvalReport {
  const EvalFlags& flags;
  const EvalInputs& inputs;
  const EvalFound& found;
  std::string modes;  // summary
  std::optional<EvalFound> against;
  std::string against_name;
};
std::string eval_json(const EvalReport& report);
std::string eval_text(const EvalReport& report);

}  // namespace weft::cli
