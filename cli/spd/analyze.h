// `weft spd analyze`: what is asked and what was found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/llm/eval/eval.h"
#include "weft/llm/eval/statistics.h"
#include "weft/llm/eval/tasks.h"
#include "weft/llm/spd/analyze.h"
#include "weft/llm/spd/search.h"
#include "weft/llm/spd/spd_file.h"

namespace weft {
class World;
}

namespace weft::cli {

struct AnalyzeFlags {
  std::string model, text, heldout, tasks, spd, out, svg, link, max_loss, modes = "int8,drop,drop+int8", drop;
  int tp = 0, threads = 0;
  std::int64_t samples = 128, window = 0, prompt = 512, limit = 0;
  int rounds = 5, measurements = 40;
  double tau1 = 0.05, tau2 = 10;
  bool no_curve = false, json = false;
};

// Time of a forward of `rows` rows with all blocks in one mode.
struct ModeTime {
  BlockMode mode;
  double forward_s = 0;
};

// Collective. Medians over rounds in which the modes take turns, the same on all ranks; sync comes first.
std::vector<ModeTime> measure_modes(World& world, const Model& model, const AnalyzeFlags& flags,
                                    std::span<const BlockMode> modes);
// The same for one choice of modes, beside sync.
struct ChoiceTime {
  double sync_s = 0, chosen_s = 0;
};
ChoiceTime measure_choice(World& world, const Model& model, const AnalyzeFlags& flags, const Modes& modes);

// What the bound was held against.
struct HeldOut {
  PairedLoss loss;                         // of perplexity
  std::vector<WindowScore> plain, chosen;  // on held-out windows
  std::vector<PairedAccuracy> accuracies;  // of every task, where there are tasks
  std::vector<std::string> task_names;
  std::vector<double> plain_accuracies;
};

struct Chosen {
  Modes modes;
  double max_loss = 0;
  double calibration_loss = 0;
  HeldOut held_out;
  int searched = 0, confirmed = 0;  // evaluations
  bool went_back = false;           // held-out text allowed less than calibration text
  double predicted_saved_s = 0;
  ChoiceTime time;
};

// Windows to search on and windows to check the bound on: of two texts, or the two halves of one.
struct AnalyzeInputs {
  std::vector<int> stream, heldout_stream;
  std::vector<TokenWindow> calibration, heldout;
  std::vector<TaskItem> items;
  std::vector<TaskUnit> units;
  std::optional<SpdFile> spd;  // brings repaired weights
  std::int64_t window = 0;
};
AnalyzeInputs read_analyze_inputs(const AnalyzeFlags& flags, const ModelConfig& config);

struct Analyzed {
  std::int64_t window = 0, calibration_windows = 0, heldout_windows = 0;
  Sensitivity sensitivity;
  std::vector<int> order;
  std::vector<double> curve;  // perplexity with 0, 1, ... blocks dropped in `order`; empty with --no-curve
  std::vector<bool> repaired;
  std::vector<ModeTime> times;
  std::vector<double> wire_losses;  // of all blocks in bf16, and in int8; below 0 where not asked for
  std::optional<Chosen> chosen;
  double seconds = 0;
  int evaluations = 0;
};

// Collective; `times` as measure_modes gave them, or empty where no choice is asked for.
Analyzed analyze(World& world, const AnalyzeFlags& flags, const AnalyzeInputs& inputs,
                 const std::vector<ModeTime>& times, const EvalProgress& progress);

std::vector<BlockMode> parse_modes(const std::string& text);  // "int8,drop"; throws bad_input
double parse_loss(const std::string& text);                   // "1%" or "0.01"; throws bad_input

std::string analyze_json(const AnalyzeFlags& flags, const Analyzed& found);
std::string analyze_text(const AnalyzeFlags& flags, const Analyzed& found);
std::string analyze_svg(const AnalyzeFlags& flags, const Analyzed& found);

}  // namespace weft::cli
