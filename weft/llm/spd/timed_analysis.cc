#include "weft/llm/spd/timed_analysis.h"

#include "weft/llm/model/model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// The same work in one world after another.
class TimedAnalyser {
 public:
  TimedAnalyser(World* joined, const TimedAnalysisOptions& options, const EvalProgress& progress)
      : joined_(joined), options_(options), progress_(progress) {}

  void time(const char* what, const std::function<void(World&, const Model&)>& body) {
    if (progress_) progress_(what, 0, 0);
    run(options_.link,
        [&](World& world) { body(world, Model::load(options_.analysis.model, world.rank(), world.size())); });
  }

  void compute(const std::function<void(World&)>& body) { run({}, body); }

  // Of local ranks the first one's result is kept.
  bool keeps(const World& world) const { return joined_ != nullptr || world.rank() == 0; }

 private:
  void run(const std::optional<Link>& link, const std::function<void(World&)>& body) {
    if (joined_ != nullptr) return body(*joined_);
    WorldOptions options;
    options.threads = options_.threads;
    options.link = link;
    World::local(options_.ranks, body, options);
  }

  World* joined_;
  const TimedAnalysisOptions& options_;
  const EvalProgress& progress_;
};

}  // namespace

TimedAnalysis analyze_timed(World* joined, const TimedAnalysisOptions& options, const AnalysisInputs& inputs,
                            const EvalProgress& progress) {
  TimedAnalyser worlds(joined, options, progress);
  TimedAnalysis found;
  std::vector<ModeTime> times;
  if (options.analysis.max_loss)
    worlds.time("timing the modes", [&](World& world, const Model& model) {
      auto measured = measure_modes(world, model, options.times, options.modes);
      if (worlds.keeps(world)) times = std::move(measured);
    });
  worlds.compute([&](World& world) {
    Analysis analysis = analyze(world, options.analysis, inputs, times, world.rank() == 0 ? progress : EvalProgress{});
    if (worlds.keeps(world)) static_cast<Analysis&>(found) = std::move(analysis);
  });
  found.times = std::move(times);
  if (!found.chosen) return found;
  const std::vector<Modes> choices{all_blocks(std::ssize(found.chosen->modes), {}), found.chosen->modes};
  worlds.time("timing the choice", [&](World& world, const Model& model) {
    const std::vector<double> seconds = forward_seconds(world, model, options.times, choices);
    if (worlds.keeps(world)) found.sync_s = seconds[0], found.chosen_s = seconds[1];
  });
  return found;
}

}  // namespace weft
