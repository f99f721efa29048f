#include "weft/llm/spd/mode_times.h"

#include <algorithm>
#include <iterator>

#include "weft/base/clock.h"
#include "weft/base/statistics.h"
#include "weft/llm/engine/engine.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// Any tokens do: what a forward costs does not depend on them.
std::vector<int> some_tokens(const ModelConfig& config, std::int64_t count) {
  std::vector<int> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int>((i * 7919) % config.vocab));
  return tokens;
}

std::vector<double> of_rank_zero(World& world, const std::vector<double>& values) {
  std::vector<float> mine(values.begin(), values.end());
  if (world.size() > 1) {
    Op op =
        world.compile(copy({.rows = 1, .cols = std::ssize(mine)}), broadcast(world.mesh({{"tp", world.size()}}), "tp"));
    op.run(mine.data());
    const auto got = op.output().values();
    mine.assign(got.begin(), got.end());
  }
  return {mine.begin(), mine.end()};
}

}  // namespace

std::vector<double> forward_seconds(World& world, const Model& model, const ModeTimesOptions& options,
                                    std::span<const Modes> choices) {
  const std::int64_t rows = std::min(options.rows, model.config().max_positions);
  Engine engine(world, model, {.sequences = 1, .capacity = rows, .rows = rows});
  const std::vector<int> tokens = some_tokens(model.config(), rows);
  const Feed feed{0, tokens};
  std::vector<std::vector<double>> seconds(choices.size());
  for (int round = -1; round < options.rounds; ++round)
    for (std::size_t c = 0; c < choices.size(); ++c) {
      engine.set_modes(choices[c]);
      engine.clear(0);
      world.barrier();
      const std::int64_t start = now_ns();
      engine.forward({&feed, 1});
      if (round >= 0) seconds[c].push_back(seconds_since(start));
    }
  std::vector<double> medians;
  for (const auto& values : seconds) medians.push_back(median(values));
  return of_rank_zero(world, medians);
}

std::vector<ModeTime> measure_modes(World& world, const Model& model, const ModeTimesOptions& options,
                                    std::span<const BlockMode> modes) {
  std::vector<ModeTime> times{{BlockMode{}, 0}};
  for (const BlockMode mode : modes) times.push_back({mode, 0});
  std::vector<Modes> choices;
  for (const ModeTime& time : times) choices.push_back(all_blocks(model.config().blocks, time.mode));
  const std::vector<double> found = forward_seconds(world, model, options, choices);
  for (std::size_t i = 0; i < times.size(); ++i) times[i].forward_s = found[i];
  return times;
}

}  // namespace weft
