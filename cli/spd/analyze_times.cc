// Times that the choice of modes is made by: a forward of a prompt's rows through all blocks, on the world's own link.
#include <algorithm>
#include <iterator>

#include "weft/base/clock.h"
#include "weft/base/statistics.h"
#include "weft/world/world.h"

#include "cli/spd/analyze.h"

namespace weft::cli {
namespace {

// Any tokens do: what a forward costs does not depend on them.
std::vector<int> some_tokens(const ModelConfig& config, std::int64_t count) {
  std::vector<int> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int>((i * 7919) % config.vocab));
  return tokens;
}

// One value of every rank's becomes that of rank 0 on all of them: what is decided by it must be the same everywhere.
std::vector<double> of_rank_zero(World& world, const std::vector<double>& values) {
  std::vector<float> mine(values.begin(), values.end());
  std::vector<float> theirs = mine;
  if (world.size() > 1) {
    Op op =
        world.compile(copy({.rows = 1, .cols = std::ssize(mine)}), broadcast(world.mesh({{"tp", world.size()}}), "tp"));
    op.run(mine.data());
    const auto got = op.output().values();
    theirs.assign(got.begin(), got.end());
  }
  return {theirs.begin(), theirs.end()};
}

std::vector<double> forward_times(World& world, const Model& model, const AnalyzeFlags& flags,
                                  const std::vector<Modes>& choices) {
  const std::int64_t rows = std::min(flags.prompt, model.config().max_positions);
  Engine engine(world, model, {.sequences = 1, .capacity = rows, .rows = rows});
  const std::vector<int> tokens = some_tokens(model.config(), rows);
  const Feed feed{0, tokens};
  std::vector<std::vector<double>> seconds(choices.size());
  for (int round = -1; round < flags.rounds; ++round)  // the first warms up
    for (std::size_t c = 0; c < choices.size(); ++c) {
      engine.set_modes(choices[c]);
      engine.clear(0);
      world.barrier();
      const std::int64_t start = now_ns();
      engine.forward({&feed, 1});
      if (round >= 0) seconds[c].push_back(static_cast<double>(now_ns() - start) * 1e-9);
    }
  std::vector<double> medians;
  for (auto& values : seconds) medians.push_back(median(values));
  return of_rank_zero(world, medians);
}

}  // namespace

std::vector<ModeTime> measure_modes(World& world, const Model& model, const AnalyzeFlags& flags,
                                    std::span<const BlockMode> modes) {
  std::vector<ModeTime> times{{BlockMode{}, 0}};
  for (const BlockMode mode : modes) times.push_back({mode, 0});
  std::vector<Modes> choices;
  for (const ModeTime& time : times) choices.push_back(all_blocks(model.config().blocks, time.mode));
  const std::vector<double> seconds = forward_times(world, model, flags, choices);
  for (std::size_t i = 0; i < times.size(); ++i) times[i].forward_s = seconds[i];
  return times;
}

ChoiceTime measure_choice(World& world, const Model& model, const AnalyzeFlags& flags, const Modes& modes) {
  const std::vector<double> seconds =
      forward_times(world, model, flags, {all_blocks(model.config().blocks, {}), modes});
  return {seconds[0], seconds[1]};
}

}  // namespace weft::cli
