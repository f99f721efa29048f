// The analysis itself: sensitivity, the curve, the choice of modes, and the check on text that was not searched on.
#include <algorithm>
#include <map>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

#include "cli/spd/analyze.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;

// The accuracies of a choice of modes, and whether each item was right.
struct ItemsFound {
  std::vector<bool> right;
  double mean = 0;  // over tasks
};

class Analysis {
 public:
  Analysis(World& world, const AnalyzeFlags& flags, const AnalyzeInputs& inputs, const EvalProgress& progress)
      : world_(world),
        flags_(flags),
        inputs_(inputs),
        progress_(progress),
        source_(open_model(flags.model)),
        model_(source_, world.rank(), world.size()),
        engine_(world, model_, options()),
        engines_{engine_, nullptr, {}} {
    if (!inputs.spd || inputs.spd->weights.empty()) return;
    engines_.is_repaired = repaired_blocks(*inputs.spd, source_.config);
    ModelSource repaired = source_;
    repaired.repaired = repaired_source(*inputs.spd, source_.config, engines_.is_repaired);
    repaired_model_.emplace(repaired, world.rank(), world.size());
    repaired_engine_.emplace(world, *repaired_model_, options());
    engines_.repaired = &*repaired_engine_;
  }

  Analyzed run(const std::vector<ModeTime>& times) {
    Analyzed out;
    out.window = inputs_.window;
    out.calibration_windows = std::ssize(inputs_.calibration);
    out.heldout_windows = std::ssize(inputs_.heldout);
    out.repaired = engines_.is_repaired;
    out.sensitivity = measure_sensitivity(engines_, inputs_.calibration, named("sensitivity"));
    out.evaluations = int_size(out.sensitivity.perplexity_from);
    out.order = drop_order(out.sensitivity.s);
    if (!flags_.no_curve) add_curve(&out);
    out.times = times;
    if (!times.empty()) choose(&out);
    return out;
  }

 private:
  EngineOptions options() const {
    EngineOptions options = eval_engine(source_.config, inputs_.window, inputs_.window - 1);
    return options;
  }

  EvalProgress named(std::string name) const {
    return [this, name](std::string_view, std::int64_t done, std::int64_t of) {
      if (progress_) progress_(name, done, of);
    };
  }

  // The ends of the curve are known: nothing dropped, and everything.
  void add_curve(Analyzed* out) {
    std::vector<Modes> between = dropped_in_order(out->order);
    between.pop_back();
    between.erase(between.begin());
    out->curve.push_back(out->sensitivity.perplexity_from.back());
    for (const auto& scores : score_modes(engines_, inputs_.calibration, between, named("curve")))
      out->curve.push_back(perplexity(scores));
    out->curve.push_back(out->sensitivity.perplexity_from.front());
    out->evaluations += int_size(between);
  }

  double calibration_loss(const Analyzed& out, std::span<const BlockMode> modes) {
    const std::vector<Modes> one{Modes(modes.begin(), modes.end())};
    const auto scores = score_modes(engines_, inputs_.calibration, one, named("search"));
    return perplexity(scores[0]) / out.sensitivity.perplexity_from.back() - 1;
  }

  // Per block: what is saved by the measured times, what is lost by S and by an even share of a wire format's loss.
  SearchInput search_input(Analyzed* out) {
    SearchInput input;
    input.max_loss = out->chosen->max_loss;
    input.most_measurements = flags_.measurements;
    const auto blocks = static_cast<double>(source_.config.blocks);
    out->wire_losses = {-1, -1};
    for (const ModeTime& time : out->times) {
      if (time.mode.wire == BlockWire::f32) continue;
      double& loss = out->wire_losses[time.mode.wire == BlockWire::int8];
      if (loss >= 0) continue;
      loss = std::max(0.0, calibration_loss(*out, all_blocks(source_.config.blocks, {false, time.mode.wire})));
      ++out->evaluations;
    }
    for (std::size_t b = 0; b < out->sensitivity.s.size(); ++b) {
      auto& choices = input.blocks.emplace_back();
      for (const ModeTime& time : out->times) {
        if (time.mode == BlockMode{}) continue;
        double loss = 0;
        if (time.mode.wire != BlockWire::f32)
          loss = out->wire_losses[time.mode.wire == BlockWire::int8] / blocks / (time.mode.drop ? 2 : 1);
        if (time.mode.drop) loss += out->sensitivity.s[b] / out->sensitivity.perplexity_from.back();
        choices.push_back({time.mode, (out->times[0].forward_s - time.forward_s) / blocks, loss});
      }
    }
    return input;
  }

  void choose(Analyzed* out) {
    Chosen& chosen = out->chosen.emplace();
    chosen.max_loss = parse_loss(flags_.max_loss);
    const SearchInput input = search_input(out);
    const SearchResult result =
        search_modes(input, [&](std::span<const BlockMode> modes) { return calibration_loss(*out, modes); });
    chosen.searched = result.measurements;
    check_held_out(result, &chosen);
    chosen.calibration_loss = chosen.went_back ? calibration_loss(*out, chosen.modes) : result.loss;
    chosen.predicted_saved_s = saved_by(input, chosen.modes);
    out->evaluations += chosen.searched + chosen.confirmed + chosen.went_back;
  }

  static double saved_by(const SearchInput& input, const Modes& modes) {
    double saved = 0;
    for (std::size_t b = 0; b < modes.size(); ++b)
      for (const ModeChoice& choice : input.blocks[b])
        if (choice.mode == modes[b]) saved += choice.saved_s;
    return saved;
  }

  void check_held_out(const SearchResult& result, Chosen* chosen) {
    const Modes plain = all_blocks(source_.config.blocks, {});
    HeldOut& held = chosen->held_out;
    held.plain = score_modes(engines_, inputs_.heldout, std::vector<Modes>{plain}, named("held out"))[0];
    ItemsFound plain_items, items;
    if (!inputs_.items.empty()) plain_items = score_tasks(plain);
    const Confirmed confirmed = confirm(result.trail, chosen->max_loss, [&](std::span<const BlockMode> modes) {
      const std::vector<Modes> one{Modes(modes.begin(), modes.end())};
      held.chosen = score_modes(engines_, inputs_.heldout, one, named("held out"))[0];
      double loss = perplexity(held.chosen) / perplexity(held.plain) - 1;
      if (!inputs_.items.empty()) {
        items = score_tasks(one[0]);
        loss = std::max(loss, 1 - items.mean / plain_items.mean);
      }
      last_measured_ = one[0];
      return loss;
    });
    chosen->confirmed = confirmed.measurements + 1;
    chosen->modes = result.trail[confirmed.at];
    chosen->went_back = confirmed.at + 1 < result.trail.size();
    if (last_measured_ != chosen->modes) {  // bisection ended on a choice that it refused
      held.chosen = score_modes(engines_, inputs_.heldout, std::vector<Modes>{chosen->modes}, named("held out"))[0];
      if (!inputs_.items.empty()) items = score_tasks(chosen->modes);
      ++chosen->confirmed;
    }
    held.loss = paired_loss(held.plain, held.chosen);
    if (!inputs_.items.empty()) compare_items(plain_items, items, &held);
  }

  ItemsFound score_tasks(const Modes& modes) {
    ModelSource source = source_;
    if (inputs_.spd) {
      std::vector<bool> used;
      for (const BlockMode mode : modes) used.push_back(mode.drop);
      source.repaired = repaired_source(*inputs_.spd, source.config, used);
    }
    const Model model(source, world_.rank(), world_.size());
    const UnitSizes sizes = unit_sizes(inputs_.units);
    EngineOptions options = eval_engine(source.config, sizes.capacity, sizes.mean_rows);
    Engine engine(world_, model, options);
    engine.set_modes(modes);
    const auto scores = score_items(engine, inputs_.items, inputs_.units, named("items"));
    ItemsFound found;
    std::map<std::string, std::pair<double, double>> counts;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      found.right.push_back(scores[i].right);
      counts[inputs_.items[i].name].first += scores[i].right;
      counts[inputs_.items[i].name].second += 1;
    }
    for (const auto& [name, count] : counts)
      found.mean += count.first / count.second / static_cast<double>(counts.size());
    return found;
  }

  void compare_items(const ItemsFound& plain, const ItemsFound& chosen, HeldOut* held) const {
    std::map<std::string, std::pair<std::vector<bool>, std::vector<bool>>> by_name;
    for (std::size_t i = 0; i < plain.right.size(); ++i) {
      auto& [first, second] = by_name[inputs_.items[i].name];
      first.push_back(plain.right[i]), second.push_back(chosen.right[i]);
    }
    for (const auto& [name, pair] : by_name) {
      held->task_names.push_back(name);
      held->accuracies.push_back(paired_accuracy(pair.first, pair.second));
      held->plain_accuracies.push_back(static_cast<double>(std::count(pair.first.begin(), pair.first.end(), true)) /
                                       static_cast<double>(pair.first.size()));
    }
  }

  World& world_;
  const AnalyzeFlags& flags_;
  const AnalyzeInputs& inputs_;
  const EvalProgress& progress_;
  ModelSource source_;
  Model model_;
  Engine engine_;
  std::optional<Model> repaired_model_;
  std::optional<Engine> repaired_engine_;
  BlockEngines engines_;
  Modes last_measured_;
};

}  // namespace

AnalyzeInputs read_analyze_inputs(const AnalyzeFlags& flags, const ModelConfig& config) {
  AnalyzeInputs inputs;
  const auto tokenizer = Tokenizer::load(flags.model);
  inputs.window = window_length(config, flags.window);
  inputs.stream = text_stream(*tokenizer, read_text_file(flags.text, kMostTextBytes));
  std::vector<TokenWindow> all = cut_windows(inputs.stream, inputs.window);
  if (!flags.heldout.empty()) {
    inputs.heldout_stream = text_stream(*tokenizer, read_text_file(flags.heldout, kMostTextBytes));
    inputs.heldout = cut_windows(inputs.heldout_stream, inputs.window, flags.samples);
  } else if (!flags.max_loss.empty()) {
    if (all.size() < 2)
      bad_input("{} has one window of {} tokens, and one to check on is needed too; give a longer text or --heldout",
                flags.text, inputs.window);
    const std::size_t half = all.size() / 2;
    inputs.heldout.assign(all.begin() + static_cast<std::ptrdiff_t>(half), all.end());
    all.resize(half);
  }
  const auto samples = num(flags.samples);
  inputs.calibration.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(samples, all.size())));
  if (inputs.heldout.size() > samples) inputs.heldout.resize(samples);
  if (!flags.tasks.empty()) {
    inputs.items = load_tasks(flags.tasks, flags.limit);
    inputs.units = task_units(inputs.items, *tokenizer, config.max_positions);
  }
  if (!flags.spd.empty()) inputs.spd = load_spd(flags.spd);
  return inputs;
}

Analyzed analyze(World& world, const AnalyzeFlags& flags, const AnalyzeInputs& inputs,
                 const std::vector<ModeTime>& times, const EvalProgress& progress) {
  return Analysis(world, flags, inputs, progress).run(times);
}

}  // namespace weft::cli
