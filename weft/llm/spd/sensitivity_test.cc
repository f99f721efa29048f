// Evaluations that start in the middle of the model against whole ones, and the engine's dropped blocks against blocks
// computed rank after rank.
#include "weft/llm/spd/sensitivity.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/sha256.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/eval/random_tokens_test.h"
#include "weft/llm/spd/simulated_ranks.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kModels = std::string(WEFT_SOURCE) + "/tests/models/";

std::vector<BlockOrder> orders_of(const Modes& modes) {
  std::vector<BlockOrder> orders;
  for (const BlockMode mode : modes) orders.push_back(mode.drop ? BlockOrder::dropped : BlockOrder::sync);
  return orders;
}

// Every choice of dropped blocks of a small model.
std::vector<Modes> all_choices(std::int64_t blocks) {
  std::vector<Modes> out;
  for (unsigned code = 0; code < 1u << blocks; ++code) {
    Modes& modes = out.emplace_back(all_blocks(blocks, {}));
    for (std::int64_t b = 0; b < blocks; ++b) modes[at(b)].drop = code >> b & 1;
  }
  return out;
}

class Dropped : public ::testing::TestWithParam<std::string> {};

TEST_P(Dropped, EngineAndSimulatedRanksAgreeOnEveryChoice) {
  for (const int ranks : {2, 3}) {
    const ModelSource source = open_model(kModels + GetParam());
    const std::vector<int> stream = random_tokens(3 * 16, source.config.vocab, 11);
    const auto windows = cut_windows(stream, 16);
    const auto choices = all_choices(source.config.blocks);
    std::vector<std::vector<WindowScore>> found;
    World::local(ranks, [&](World& world) {
      const Model model(source, world.rank(), world.size());
      Engine engine(world, model, {.sequences = 2, .capacity = 16, .rows = 30});
      BlockEngines engines{engine, nullptr, {}};
      const auto scores = score_modes(engines, windows, choices);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        engine.set_modes(choices[c]);
        const auto whole = score_windows(engine, windows);
        for (std::size_t w = 0; w < windows.size(); ++w)
          EXPECT_EQ(scores[c][w].log_probability, whole[w].log_probability) << "a start in the middle changes nothing";
      }
      if (world.rank() == 0) found = scores;
    });
    SimulatedRanks simulated(source, ranks, 15, 1);
    for (std::size_t c = 0; c < choices.size(); ++c)
      for (std::size_t w = 0; w < windows.size(); ++w)
        EXPECT_NEAR(found[c][w].log_probability, simulated.score(windows[w], orders_of(choices[c])).log_probability,
                    2e-3)
            << ranks << " ranks, choice " << c;
    EXPECT_GT(std::abs(found.back()[0].log_probability - found[0][0].log_probability), 0.02) << "dropping shows";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Dropped, ::testing::Values("llama-gqa", "mistral-window", "opt-bias"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST(Sensitivity, IsTheDifferenceOfSuffixes) {
  World::local(2, [](World& world) {
    const Model model = Model::load(kModels + "llama-gqa", world.rank(), world.size());
    const std::int64_t blocks = model.config().blocks;
    const std::vector<int> stream = random_tokens(2 * 16, model.config().vocab, 11);
    const auto windows = cut_windows(stream, 16);
    Engine engine(world, model, {.sequences = 2, .capacity = 16, .rows = 30});
    BlockEngines engines{engine, nullptr, {}};
    const Sensitivity found = measure_sensitivity(engines, windows);
    ASSERT_EQ(std::ssize(found.s), blocks);
    for (std::int64_t from = 0; from <= blocks; ++from) {
      Modes modes = all_blocks(blocks, {});
      for (std::int64_t b = from; b < blocks; ++b) modes[at(b)].drop = true;
      engine.set_modes(modes);
      EXPECT_NEAR(found.perplexity_from[at(from)], perplexity(score_windows(engine, windows)), 1e-9);
    }
    double sum = 0;
    for (const double s : found.s) sum += s;
    EXPECT_NEAR(sum, found.perplexity_from.front() - found.perplexity_from.back(), 1e-9);
    const std::vector<int> order = drop_order(found.s);
    for (std::size_t i = 1; i < order.size(); ++i) EXPECT_LE(found.s[at(order[i - 1])], found.s[at(order[i])]);
  });
}

TEST(Sensitivity, ClassesHaveTheirThresholds) {
  EXPECT_EQ(class_of(-1, {}), BlockClass::isb);
  EXPECT_EQ(class_of(0.05, {}), BlockClass::isb);
  EXPECT_EQ(class_of(0.06, {}), BlockClass::sb);
  EXPECT_EQ(class_of(10, {}), BlockClass::sb);
  EXPECT_EQ(class_of(10.1, {}), BlockClass::esb);
}

// Weights that "repair" block 0 by being wrong: they show when that block is dropped, and only then; and two engines
// that take turns give what one of the model so changed gives.
TEST(Repaired, WeightsAreUsedWhereABlockIsDropped) {
  const std::string folder = kModels + "llama-gqa";
  const ModelSource source = open_model(folder);
  const std::int64_t n = source.config.hidden, k = source.config.intermediate;
  const std::vector<float> values(num(n * k), 0.01f);
  const ScratchFolder scratch;
  const StoredTensor tensor{.name = "model.layers.0.mlp.down_proj.weight",
                            .dtype = StoredDtype::f32,
                            .shape = {n, k},
                            .data = reinterpret_cast<const std::byte*>(values.data()),
                            .bytes = values.size() * 4};
  write_safetensors(scratch.file("r.safetensors"), {&tensor, 1});
  SpdFile spd{.model = model_hash(folder), .tp = 2, .blocks = all_blocks(source.config.blocks, {})};
  spd.weights = "r.safetensors";
  spd.weights_sha256 = file_sha256(scratch.file("r.safetensors"));
  spd.path = scratch.file("x.spd");
  EXPECT_EQ(repaired_blocks(spd, source.config)[0], true);
  EXPECT_EQ(repaired_blocks(spd, source.config)[1], false);
  const std::vector<int> stream = random_tokens(2 * 16, source.config.vocab, 11);
  World::local(2, [&](World& world) {
    const auto windows = cut_windows(stream, 16);
    const EngineOptions options{.sequences = 2, .capacity = 16, .rows = 30};
    const Model own(source, world.rank(), 2);
    const std::vector<bool> all(num(source.config.blocks), true);
    const Model repaired(repaired_model(source, spd, all), world.rank(), 2);
    Engine own_engine(world, own, options), repaired_engine(world, repaired, options);
    BlockEngines engines{own_engine, &repaired_engine, repaired_blocks(spd, source.config)};
    BlockEngines plain{own_engine, nullptr, {}};
    for (Modes& modes : all_choices(source.config.blocks)) {
      SpdFile chosen = spd;
      chosen.blocks = modes;
      const Model model(open_model(folder, chosen, 2), world.rank(), 2);
      Engine engine(world, model, options);
      engine.set_modes(modes);
      const double want = perplexity(score_windows(engine, windows));
      const double taking_turns = perplexity(score_modes(engines, windows, std::vector<Modes>{modes})[0]);
      const double unrepaired = perplexity(score_modes(plain, windows, std::vector<Modes>{modes})[0]);
      EXPECT_NEAR(taking_turns, want, 1e-9);
      if (modes[0].drop) {
        EXPECT_GT(std::abs(want / unrepaired - 1), 1e-4);
      } else {
        EXPECT_NEAR(want, unrepaired, 1e-9);
      }
    }
  });
}

}  // namespace
}  // namespace weft
