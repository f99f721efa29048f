#include "weft/llm/spd/analysis.h"

#include <algorithm>

#include "weft/base/index.h"
#include "weft/llm/eval/tally.h"
#include "weft/llm/spd/search.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// The engines of an analysis and what they have found so far.
class Analyst {
 public:
  Analyst(World& world, const AnalysisOptions& options, const AnalysisInputs& inputs, const EvalProgress& progress)
      : world_(world),
        options_(options),
        inputs_(inputs),
        progress_(progress),
        source_(open_model(options.model)),
        model_(source_, world.rank(), world.size()),
        engine_(world, model_, engine_options()),
        engines_{engine_, nullptr, {}} {
    if (!inputs.spd || inputs.spd->weights.empty()) return;
    engines_.is_repaired = repaired_blocks(*inputs.spd, source_.config);
    repaired_model_.emplace(repaired_in(engines_.is_repaired), world.rank(), world.size());
    repaired_engine_.emplace(world, *repaired_model_, engine_options());
    engines_.repaired = &*repaired_engine_;
  }

  Analysis run(std::span<const ModeTime> times) {
    out_.window = inputs_.window;
    out_.calibration_windows = std::ssize(inputs_.calibration);
    out_.heldout_windows = std::ssize(inputs_.heldout);
    out_.repaired = engines_.is_repaired;
    out_.sensitivity = measure_sensitivity(engines_, inputs_.calibration, named("sensitivity"));
    out_.evaluations = int_size(out_.sensitivity.perplexity_from);
    out_.order = drop_order(out_.sensitivity.s);
    if (options_.curve) add_curve();
    if (!times.empty()) choose(times);
    return std::move(out_);
  }

 private:
  EngineOptions engine_options() const { return eval_engine(source_.config, inputs_.window, inputs_.window - 1); }

  // The model with the repaired weights of some blocks.
  ModelSource repaired_in(const std::vector<bool>& blocks) const {
    return inputs_.spd ? repaired_model(source_, *inputs_.spd, blocks) : source_;
  }

  EvalProgress named(std::string name) const {
    return [this, name](std::string_view, std::int64_t done, std::int64_t of) {
      if (progress_) progress_(name, done, of);
    };
  }

  std::vector<WindowScore> scores_of(std::span<const TokenWindow> windows, std::span<const BlockMode> modes,
                                     const char* name) {
    const std::vector<Modes> one{Modes(modes.begin(), modes.end())};
    return score_modes(engines_, windows, one, named(name))[0];
  }

  double plain_perplexity() const { return out_.sensitivity.perplexity_from.back(); }

  double calibration_loss(std::span<const BlockMode> modes) {
    return perplexity(scores_of(inputs_.calibration, modes, "search")) / plain_perplexity() - 1;
  }

  // The ends of the curve are known: nothing dropped, and everything.
  void add_curve() {
    std::vector<Modes> between = dropped_in_order(out_.order);
    between.pop_back();
    between.erase(between.begin());
    out_.curve.push_back(plain_perplexity());
    for (const auto& scores : score_modes(engines_, inputs_.calibration, between, named("curve")))
      out_.curve.push_back(perplexity(scores));
    out_.curve.push_back(out_.sensitivity.perplexity_from.front());
    out_.evaluations += int_size(between);
  }

  // Of all blocks in each wire format that a mode has.
  void measure_wires(std::span<const ModeTime> times) {
    out_.wire_losses = {-1, -1};
    for (const ModeTime& time : times) {
      if (time.mode.wire == BlockWire::f32) continue;
      double& loss = out_.wire_losses[time.mode.wire == BlockWire::int8];
      if (loss >= 0) continue;
      loss = std::max(0.0, calibration_loss(all_blocks(source_.config.blocks, {false, time.mode.wire})));
      ++out_.evaluations;
    }
  }

  // Per block: what is saved by the measured times, what is lost by S and by an even share of a wire format's loss.
  SearchInput search_input(std::span<const ModeTime> times) const {
    SearchInput input{.max_loss = *options_.max_loss, .most_measurements = options_.most_measurements};
    const double blocks = source_.config.blocks;
    for (const double s : out_.sensitivity.s) {
      auto& choices = input.blocks.emplace_back();
      for (const ModeTime& time : times) {
        if (time.mode == BlockMode{}) continue;
        double loss = 0;
        if (time.mode.wire != BlockWire::f32)
          loss = out_.wire_losses[time.mode.wire == BlockWire::int8] / blocks / (time.mode.drop ? 2 : 1);
        if (time.mode.drop) loss += s / plain_perplexity();
        choices.push_back({time.mode, (times[0].forward_s - time.forward_s) / blocks, loss});
      }
    }
    return input;
  }

  void choose(std::span<const ModeTime> times) {
    ChosenModes& chosen = out_.chosen.emplace();
    chosen.max_loss = *options_.max_loss;
    measure_wires(times);
    const SearchInput input = search_input(times);
    const SearchResult result =
        search_modes(input, [&](std::span<const BlockMode> modes) { return calibration_loss(modes); });
    chosen.searched = result.measurements;
    check_held_out(result, &chosen);
    chosen.calibration_loss = chosen.went_back ? calibration_loss(chosen.modes) : result.loss;
    for (std::size_t b = 0; b < chosen.modes.size(); ++b)
      for (const ModeChoice& choice : input.blocks[b])
        if (choice.mode == chosen.modes[b]) chosen.predicted_saved_s += choice.saved_s;
    out_.evaluations += chosen.searched + chosen.confirmed + chosen.went_back;
  }

  // Held-out windows and items under one choice of modes.
  struct Measured {
    Modes modes;
    std::vector<WindowScore> windows;
    std::vector<ItemScore> items;
    std::vector<TaskTally> tasks;
  };

  Measured measure_held_out(std::span<const BlockMode> modes) {
    Measured found{.modes = Modes(modes.begin(), modes.end())};
    found.windows = scores_of(inputs_.heldout, modes, "held out");
    if (inputs_.tasks.items.empty()) return found;
    std::vector<bool> dropped;
    for (const BlockMode mode : modes) dropped.push_back(mode.drop);
    found.items = evaluate(world_, repaired_in(dropped), modes, inputs_.tasks, named("items")).items;
    found.tasks = tally(inputs_.tasks.items, inputs_.tasks.units, found.items);
    return found;
  }

  static double loss_of(const Measured& plain, const Measured& other) {
    const double loss = perplexity(other.windows) / perplexity(plain.windows) - 1;
    if (plain.tasks.empty()) return loss;
    return std::max(loss, 1 - mean_accuracy(other.tasks).mean / mean_accuracy(plain.tasks).mean);
  }

  void check_held_out(const SearchResult& result, ChosenModes* chosen) {
    const Measured plain = measure_held_out(all_blocks(source_.config.blocks, {}));
    Measured last;
    const Confirmed confirmed = confirm(result.trail, chosen->max_loss, [&](std::span<const BlockMode> modes) {
      last = measure_held_out(modes);
      return loss_of(plain, last);
    });
    chosen->confirmed = confirmed.measurements + 1;
    chosen->modes = result.trail[confirmed.at];
    chosen->went_back = confirmed.at + 1 < result.trail.size();
    if (last.modes != chosen->modes) {  // bisection ended on a choice that it refused
      last = measure_held_out(chosen->modes);
      ++chosen->confirmed;
    }
    chosen->held_out = {plain.windows, last.windows, paired_loss(plain.windows, last.windows), {}};
    auto& tasks = chosen->held_out.tasks;
    for (const TaskTally& task : plain.tasks)
      tasks.push_back({task.name, task.accuracy(), paired_accuracy(task, plain.items, last.items)});
    std::sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  }

  World& world_;
  const AnalysisOptions& options_;
  const AnalysisInputs& inputs_;
  const EvalProgress& progress_;
  ModelSource source_;
  Model model_;
  Engine engine_;
  std::optional<Model> repaired_model_;
  std::optional<Engine> repaired_engine_;
  BlockEngines engines_;
  Analysis out_;
};

}  // namespace

Analysis analyze(World& world, const AnalysisOptions& options, const AnalysisInputs& inputs,
                 std::span<const ModeTime> times, const EvalProgress& progress) {
  return Analyst(world, options, inputs, progress).run(times);
}

}  // namespace weft
