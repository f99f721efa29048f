// Reading what is evaluated on, and evaluating one configuration.
#include <iterator>

#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/sha256.h"
#include "weft/io/new_file.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

#include "cli/eval/eval.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;
constexpr int kFoundFormat = 1;

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

EvalInputs read_inputs(const EvalFlags& flags, const ModelConfig& config) {
  EvalInputs inputs;
  const auto tokenizer = Tokenizer::load(flags.model);
  if (!flags.text.empty()) {
    const std::string text = read_text_file(flags.text, kMostTextBytes);
    inputs.text_path = flags.text;
    inputs.text_sha256 = to_hex(sha256(text));
    inputs.text_bytes = std::ssize(text);
    inputs.window = window_length(config, flags.window);
    inputs.stream = text_stream(*tokenizer, text);
    inputs.windows = cut_windows(inputs.stream, inputs.window, flags.limit);
  }
  if (!flags.tasks.empty()) {
    inputs.tasks_path = flags.tasks;
    inputs.tasks_sha256 = file_sha256(flags.tasks);
    inputs.items = load_tasks(flags.tasks, flags.limit);
    inputs.units = task_units(inputs.items, *tokenizer, config.max_positions);
  }
  return inputs;
}

EvalFound evaluate(World& world, const EvalFlags& flags, const EvalInputs& inputs, const std::optional<SpdFile>& spd,
                   const EvalProgress& progress) {
  const ModelSource source = spd ? open_model(flags.model, *spd, world.size()) : open_model(flags.model);
  const Model model(source, world.rank(), world.size());
  EvalFound found;
  const auto engine_for = [&](EngineOptions options) {
    Engine engine(world, model, options);
    if (spd) engine.set_modes(spd->blocks);
    return engine;
  };
  const auto count = [&](const Engine& engine) {
    const EngineTraffic t = engine.traffic();
    found.traffic.block_bytes += t.block_bytes, found.traffic.head_bytes += t.head_bytes;
    found.traffic.syncs_made += t.syncs_made, found.traffic.syncs_dropped += t.syncs_dropped;
    found.traffic.forward_s += t.forward_s, found.traffic.head_s += t.head_s;
    found.traffic.block_op_s += t.block_op_s;
  };
  if (!inputs.windows.empty()) {
    Engine engine = engine_for(eval_engine(source.config, inputs.window, inputs.window - 1));
    const std::int64_t start = now_ns();
    found.windows = score_windows(engine, inputs.windows, progress);
    found.windows_s = seconds_since(start);
    count(engine);
  }
  if (!inputs.units.empty()) {
    const UnitSizes sizes = unit_sizes(inputs.units);
    Engine engine = engine_for(eval_engine(source.config, sizes.capacity, sizes.mean_rows));
    const std::int64_t start = now_ns();
    found.items = score_items(engine, inputs.items, inputs.units, progress);
    found.items_s = seconds_since(start);
    found.item_rows = rows_of(inputs.units);
    count(engine);
  }
  return found;
}

void save_found(const std::string& path, const EvalFlags& flags, const EvalInputs& inputs, const EvalFound& found) {
  nlohmann::ordered_json out{{"format", kFoundFormat},
                             {"model", flags.model},
                             {"ranks", flags.ranks.count},
                             {"spd", flags.spd},
                             {"window", inputs.window}};
  out["text_sha256"] = inputs.text_sha256, out["tasks_sha256"] = inputs.tasks_sha256;
  out["windows"] = nlohmann::ordered_json::array();
  for (const WindowScore& w : found.windows) out["windows"].push_back({w.log_probability, w.tokens});
  std::string right;
  for (const ItemScore& item : found.items) right += item.right ? '1' : '0';
  out["right"] = right;
  const std::string text = out.dump() + "\n";
  NewFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

EvalFound load_found(const std::string& path, const EvalInputs& inputs) {
  const Json object = load_json(path);
  if (get_int(object, "format", path) != kFoundFormat)
    bad_input("{}: unknown \"format\"; give a file that `weft eval --save` wrote", path);
  check_same(path, "text", get_string(object, "text_sha256", path), inputs.text_sha256);
  check_same(path, "task file", get_string(object, "tasks_sha256", path), inputs.tasks_sha256);
  EvalFound found;
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

}  // namespace weft::cli
