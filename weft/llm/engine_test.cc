// The engine against stored logits of Hugging Face transformers, at every number of ranks; and against itself: however
// prompts are cut, batched and synchronised.
#include "weft/llm/engine.h"

#include <numeric>

#include <gtest/gtest.h>

#include "weft/llm/golden_test.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr double kTolerance = 1e-4;

std::vector<int> all_rows(const Engine& engine) {
  std::vector<int> rows(static_cast<std::size_t>(engine.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<float> logits_of(Engine& engine, std::span<const int> ids) {
  engine.clear(0);
  const Feed feed{0, ids};
  engine.forward({&feed, 1});
  return engine.logits(all_rows(engine));
}

class Golden : public ::testing::TestWithParam<int> {};

TEST_P(Golden, LogitsAreThoseOfTransformers) {
  for (const std::string& folder : golden_folders())
    World::local(GetParam(), [&](World& world) {
      const Model model = Model::load(folder, world.rank(), world.size());
      Engine engine(world, model, {.rows = 64});
      for (const GoldenPrompt& prompt : golden_prompts(folder))
        EXPECT_LT(golden_error(prompt, logits_of(engine, prompt.ids)), kTolerance)
            << folder << ", rank " << world.rank() << ", prompt of " << prompt.ids.size();
    });
}

INSTANTIATE_TEST_SUITE_P(Engine, Golden, ::testing::Values(1, 2, 3, 4, 5, 6, 8),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

}  // namespace
}  // namespace weft
