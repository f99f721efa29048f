#include "weft/llm/eval/evaluate.h"

#include <cmath>
#include <iterator>

#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/base/sha256.h"
#include "weft/io/text/tokenizer.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr int kEvaluationFormat = 1;

// Rows that one configuration computes for the items.
std::int64_t rows_of(std::span<const TaskUnit> units) {
  std::int64_t rows = 0;
  for (const TaskUnit& unit : units) {
    rows += std::ssize(unit.context) - 1;
    for (const auto& choice : unit.choices) rows += std::ssize(choice);
  }
  return rows;
}

void check_same(const std::string& path, std::string_view what, const std::string& theirs, const std::string& ours) {
  if (theirs != ours)
    bad_input("{}: it was made with another {}; evaluate both on the same one, or leave out --against", path, what);
}

}  // namespace

EvalInputs read_eval_inputs(const EvalOptions& options, const Tokenizer& tokenizer, const ModelConfig& config) {
  EvalInputs inputs;
  inputs.activations = options.activations;
  if (!options.text.empty()) {
    const std::string text = read_text_file(options.text, kMostTextBytes);
    inputs.text_sha256 = to_hex(sha256(text));
    inputs.text_bytes = std::ssize(text);
    inputs.window = window_length(config, options.window);
    inputs.stream = text_stream(tokenizer, text);
    inputs.windows = cut_windows(inputs.stream, inputs.window, options.limit);
  }
  if (!options.tasks.empty()) {
    inputs.tasks_sha256 = file_sha256(options.tasks);
    inputs.items = load_tasks(options.tasks, options.limit);
    inputs.units = task_units(inputs.items, tokenizer, config.max_positions);
  }
  return inputs;
}

std::int64_t Evaluation::scored_tokens() const {
  std::int64_t tokens = 0;
  for (const WindowScore& window : windows) tokens += window.tokens;
  return tokens;
}

double Evaluation::tokens_per_s() const {
  const double seconds = windows_s + items_s;
  return seconds > 0 ? (scored_tokens() + item_rows) / seconds : 0;
}

Evaluation evaluate(World& world, const ModelSource& source, std::span<const BlockMode> modes, const EvalInputs& inputs,
                    const EvalProgress& progress) {
  const Model model(source, world.rank(), world.size());
  Evaluation found;
  // Runs `score` on an engine of its own and returns the seconds that it took.
  const auto on_engine = [&](EngineOptions options, const auto& score) {
    options.activations = inputs.activations;
    Engine engine(world, model, options);
    if (!modes.empty()) engine.set_modes(modes);
    const std::int64_t start = now_ns();
    score(engine);
    const double seconds = seconds_since(start);
    found.traffic += engine.traffic();
    return seconds;
  };
  if (!inputs.windows.empty())
    found.windows_s = on_engine(eval_engine(source.config, inputs.window, inputs.window - 1), [&](Engine& engine) {
      found.windows = score_windows(engine, inputs.windows, progress);
    });
  if (!inputs.units.empty()) {
    const UnitSizes sizes = unit_sizes(inputs.units);
    found.items_s = on_engine(eval_engine(source.config, sizes.capacity, sizes.mean_rows), [&](Engine& engine) {
      found.items = score_items(engine, inputs.items, inputs.units, progress);
    });
    found.item_rows = rows_of(inputs.units);
  }
  return found;
}

double bits_per_byte(const Evaluation& found, const EvalInputs& inputs) {
  const double bits_per_token = std::log2(perplexity(found.windows));
  return bits_per_token * inputs.stream.size() / inputs.text_bytes;
}

void save_evaluation(const std::string& path, const EvaluationNotes& notes, const EvalInputs& inputs,
                     const Evaluation& found) {
  nlohmann::ordered_json out{{"format", kEvaluationFormat},
                             {"model", notes.model},
                             {"ranks", notes.ranks},
                             {"spd", notes.spd},
                             {"window", inputs.window}};
  out["text_sha256"] = inputs.text_sha256, out["tasks_sha256"] = inputs.tasks_sha256;
  out["windows"] = nlohmann::ordered_json::array();
  for (const WindowScore& w : found.windows) out["windows"].push_back({w.log_probability, w.tokens});
  std::string right;
  for (const ItemScore& item : found.items) right += item.right ? '1' : '0';
  out["right"] = right;
  write_file(path, json_line(out));
}

Evaluation load_evaluation(const std::string& path, const EvalInputs& inputs) {
  const Json object = load_json(path);
  if (get_int(object, "format", path) != kEvaluationFormat)
    bad_input("{}: unknown \"format\"; give a file that `weft eval --save` wrote", path);
  check_same(path, "text", get_string(object, "text_sha256", path), inputs.text_sha256);
  check_same(path, "task file", get_string(object, "tasks_sha256", path), inputs.tasks_sha256);
  Evaluation found;
  for (const Json& window : get_array(object, "windows", path)) {
    if (!window.is_array() || window.size() != 2 || !window[0].is_number() || !window[1].is_number_integer())
      bad_input("{}: window {} is no pair of numbers; evaluate again with --save", path, found.windows.size());
    found.windows.push_back({window[0].get<double>(), window[1].get<std::int64_t>()});
  }
  for (const char c : get_string(object, "right", path)) found.items.push_back({c == '1', 0});
  if (found.windows.size() != inputs.windows.size() || found.items.size() != inputs.items.size())
    bad_input("{}: {} windows and {} items, but here are {} and {}; use the same --limit and --window", path,
              found.windows.size(), found.items.size(), inputs.windows.size(), inputs.items.size());
  return found;
}

}  // namespace weft
