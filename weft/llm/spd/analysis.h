// From a model and some text to the fastest modes of its blocks: what each block's first all-reduce is worth
// (sensitivity.h), perplexity as blocks are dropped one after another, the search for modes within a bound (search.h),
// and the check of that bound on text that was not searched on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/llm/eval/evaluate.h"
#include "weft/llm/spd/mode_times.h"
#include "weft/llm/spd/sensitivity.h"
#include "weft/llm/spd/spd_file.h"

namespace weft {

class World;

struct AnalysisOptions {
  std::string model;                 // a folder
  std::string text, heldout, tasks;  // files. No heldout: the second half of the text, where there is a bound
  std::string spd;                   // a file that brings repaired weights; or empty
  std::int64_t samples = 128;        // windows of each text at most
  std::int64_t window = 0;           // as window_length() takes it
  std::int64_t limit = 0;            // items of each task; 0: all
  std::optional<double> max_loss;    // the bound: relative loss of perplexity, and of accuracy where there are tasks
  int most_measurements = 40;        // of the search
  bool curve = true;                 // perplexity over blocks dropped: half of the work
};

// Windows to search on and windows to check the bound on, items, and the spd file: read once, for all ranks.
struct AnalysisInputs {
  std::vector<int> stream, heldout_stream;
  std::vector<TokenWindow> calibration, heldout;  // of the streams
  EvalInputs tasks;                               // items alone; empty without tasks
  std::optional<SpdFile> spd;
  std::int64_t window = 0;
};
AnalysisInputs read_analysis_inputs(const AnalysisOptions& options, const ModelConfig& config);  // throws bad_input

// One task, with all blocks synchronised and as chosen.
struct TaskChange {
  std::string name;
  double plain_accuracy = 0;
  PairedAccuracy pair;
};

// What the bound was held against.
struct HeldOut {
  std::vector<WindowScore> plain, chosen;
  PairedLoss loss;                // of perplexity
  std::vector<TaskChange> tasks;  // by name; empty without items
};

struct ChosenModes {
  Modes modes;
  double max_loss = 0, calibration_loss = 0;
  HeldOut held_out;
  int searched = 0, confirmed = 0;  // evaluations
  bool went_back = false;           // held-out text allowed less than calibration text
  double predicted_saved_s = 0;
};

struct Analysis {
  std::int64_t window = 0, calibration_windows = 0, heldout_windows = 0;
  Sensitivity sensitivity;
  std::vector<int> order;           // blocks, least sensitive first
  std::vector<double> curve;        // perplexity with 0, 1, ... blocks dropped in `order`; empty where not asked for
  std::vector<bool> repaired;       // blocks with repaired weights; empty without
  std::vector<double> wire_losses;  // of all blocks in bf16, and in int8; below 0 where not asked for
  std::optional<ChosenModes> chosen;
  int evaluations = 0;
};

// Collective. `times` as measure_modes() gave them; empty where there is no bound.
Analysis analyze(World& world, const AnalysisOptions& options, const AnalysisInputs& inputs,
                 std::span<const ModeTime> times, const EvalProgress& progress = {});

// The texts that the model's folder brings, where none is named: calibration.txt to search on, heldout.txt to check on.
// Throws bad_input where there is none either.
void take_texts_of_folder(AnalysisOptions* options);

// Enough for a first look, in minutes instead of an hour: few windows, no curve, a short search.
void make_quick(AnalysisOptions* options);

// What a choice is worth where it was timed: empty where it is faster by more than a percent, which two runs of the
// same code differ by; else a sentence that says so.
std::string no_gain(std::span<const BlockMode> modes, double sync_s, double chosen_s);

// The modes that drop some of the least sensitive blocks: "3" of them, those of class "isb", or "all". Throws bad_input
// naming `where`.
Modes dropped_by_class(std::string_view which, const Analysis& found, const Thresholds& thresholds,
                       std::string_view where);

// The path of the file's weights as an spd file at `out` must name it: downwards only. Throws bad_input elsewhere.
std::string weights_beside(const std::string& out, const SpdFile& spd);

}  // namespace weft
