// What an analysis reads, and what it leads to: texts cut into windows, items, and the blocks that an spd file drops.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/spd/analysis.h"

namespace weft {

namespace {

std::string file_in(const std::string& folder, const char* name) {
  std::error_code error;
  const std::string path = folder + "/" + name;
  return std::filesystem::is_regular_file(path, error) ? path : "";
}

}  // namespace

void take_texts_of_folder(AnalysisOptions* options) {
  if (!options->text.empty()) return;
  options->text = file_in(options->model, "calibration.txt");
  if (options->text.empty())
    bad_input("there is no text to analyse on: {} has no calibration.txt; give --text FILE, some pages of plain text",
              options->model);
  if (options->heldout.empty()) options->heldout = file_in(options->model, "heldout.txt");
}

void make_quick(AnalysisOptions* options) {
  options->samples = 8;
  options->window = 256;
  options->most_measurements = 12;
  options->curve = false;
}

std::string no_gain(std::span<const BlockMode> modes, double sync_s, double chosen_s) {
  const bool changes = std::any_of(modes.begin(), modes.end(), [](BlockMode mode) { return mode != BlockMode{}; });
  if (!changes) return "It gains nothing: no block may change within this bound; allow a larger --max-loss.";
  if (chosen_s < 0.99 * sync_s) return "";
  return "It gains nothing on this link: the choice is no faster than all blocks in sync; name a slower --link.";
}

AnalysisInputs read_analysis_inputs(const AnalysisOptions& options, const ModelConfig& config) {
  AnalysisInputs inputs;
  const auto tokenizer = Tokenizer::load(options.model);
  inputs.window = window_length(config, options.window);
  inputs.stream = read_stream(*tokenizer, options.text);
  inputs.calibration = cut_windows(inputs.stream, inputs.window);
  const auto samples = num(options.samples);
  if (!options.heldout.empty()) {
    inputs.heldout_stream = read_stream(*tokenizer, options.heldout);
    inputs.heldout = cut_windows(inputs.heldout_stream, inputs.window);
  } else if (options.max_loss) {
    if (inputs.calibration.size() < 2)
      bad_input("{} has one window of {} tokens, and one to check on is needed too; give a longer text or --heldout",
                options.text, inputs.window);
    const auto half = inputs.calibration.begin() + std::ssize(inputs.calibration) / 2;
    inputs.heldout.assign(half, inputs.calibration.end());
    inputs.calibration.erase(half, inputs.calibration.end());
  }
  if (inputs.calibration.size() > samples) inputs.calibration.resize(samples);
  if (inputs.heldout.size() > samples) inputs.heldout.resize(samples);
  inputs.tasks = read_eval_inputs({.tasks = options.tasks, .limit = options.limit}, *tokenizer, config);
  if (!options.spd.empty()) inputs.spd = load_spd(options.spd);
  return inputs;
}

Modes dropped_by_class(std::string_view which, const Analysis& found, const Thresholds& thresholds,
                       std::string_view where) {
  const auto blocks = std::ssize(found.order);
  std::int64_t count = 0;
  if (which == "all") {
    count = blocks;
  } else if (which == "isb") {
    for (const double s : found.sensitivity.s) count += class_of(s, thresholds) == BlockClass::isb;
  } else {
    const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), count);
    if (error != std::errc{} || end != which.data() + which.size() || count < 0 || count > blocks)
      bad_input("{} is \"{}\"; use a number from 0 to {}, isb or all", where, which, blocks);
  }
  return dropped_in_order(found.order)[at(count)];
}

std::string weights_beside(const std::string& out, const SpdFile& spd) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(out).parent_path();
  const fs::path weights =
      fs::absolute(spd.weights_path()).lexically_normal().lexically_relative(folder.lexically_normal());
  if (weights.empty() || *weights.begin() == "..")
    bad_input("--out {}: the weights of {} must lie beside it or below; write it into {}", out, spd.path,
              fs::absolute(spd.weights_path()).parent_path().string());
  return weights.string();
}

}  // namespace weft
