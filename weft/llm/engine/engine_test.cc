// The engine against stored logits of Hugging Face transformers, at every number of ranks; and against itself: however
// prompts are cut, batched and synchronised.
#include "weft/llm/engine/engine.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/spd/simulated_ranks.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr double kTolerance = 1e-4;

std::vector<int> all_rows(const Engine& engine) {
  std::vector<int> rows(num(engine.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<float> logits_of(Engine& engine, std::span<const int> ids) {
  engine.clear(0);
  const Feed feed{0, ids};
  engine.forward({&feed, 1});
  return engine.logits(all_rows(engine));
}

// longrope: transformers picks the rates by the length of the text it is given, the engine by that of the longest it
// has room for.
bool turns_by_length(const Model& model) {
  const auto& rotaries = model.config().design.rotaries;
  return std::any_of(rotaries.begin(), rotaries.end(),
                     [](const RotaryDesign& rotary) { return rotary.kind == RotaryKind::longrope; });
}

class Golden : public ::testing::TestWithParam<int> {};

TEST_P(Golden, LogitsAreThoseOfTransformers) {
  for (const std::string& folder : golden_folders())
    World::local(GetParam(), [&](World& world) {
      const Model model = Model::load(folder, world.rank(), world.size());
      std::optional<Engine> engine;
      for (const GoldenPrompt& prompt : golden_prompts(folder)) {
        const std::int64_t capacity = turns_by_length(model) ? std::ssize(prompt.ids) : 0;
        if (!engine || capacity > 0) engine.emplace(world, model, EngineOptions{.capacity = capacity, .rows = 64});
        EXPECT_LT(golden_error(prompt, logits_of(*engine, prompt.ids)), kTolerance)
            << folder << ", rank " << world.rank() << ", prompt of " << prompt.ids.size();
      }
    });
}

INSTANTIATE_TEST_SUITE_P(Engine, Golden, ::testing::Values(1, 2, 3, 4, 5, 6, 8),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

const std::string kWeft16 = golden_folders()[0], kGqa = golden_folders()[1], kUntied = golden_folders()[2],
                  kOpt = golden_folders()[4];

std::vector<BlockMode> all_blocks(const Engine& engine, BlockMode mode) {
  return std::vector<BlockMode>(num(engine.model().config().blocks), mode);
}

void expect_refused(const std::function<void()>& call, const std::string& says) {
  const std::string said = refusal(call);
  EXPECT_NE(said.find(says), std::string::npos) << said;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double worst = 0, largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(a[i] - b[i])));
    largest = std::max(largest, static_cast<double>(std::abs(a[i])));
  }
  return worst / largest;
}

// One rank's part of the attention output is all of it: what a dropped block computes is then exact, biases included.
TEST(Engine, DroppingOnOneRankChangesNothing) {
  for (const std::string& folder : golden_folders())
    World::local(1, [&](World& world) {
      const Model model = Model::load(folder);
      if (!why_not_droppable(model.config().design).empty()) return;
      for (const GoldenPrompt& prompt : golden_prompts(folder)) {
        const std::int64_t capacity = turns_by_length(model) ? std::ssize(prompt.ids) : 0;
        Engine engine(world, model, {.capacity = capacity, .rows = 64});
        engine.set_modes(all_blocks(engine, {.drop = true}));
        EXPECT_LT(golden_error(prompt, logits_of(engine, prompt.ids)), kTolerance) << folder;
      }
    });
}

TEST(Engine, RefusesToDropWhatIsNormedOrParallel) {
  for (const char* name : {"gemma2", "olmo2", "neox"})
    World::local(1, [&](World& world) {
      const Model model = Model::load(golden_folder(name));
      Engine engine(world, model, {.rows = 8});
      expect_refused([&] { engine.set_modes(all_blocks(engine, {.drop = true})); }, "block 0 cannot be dropped");
    });
}

// A parallel block sums once; norms over all heads send two numbers per row besides.
TEST(Engine, CountsTheSynchronisationsOfAFamily) {
  World::local(2, [&](World& world) {
    const auto traffic_of = [&](const char* name) {
      const Model model = Model::load(golden_folder(name), world.rank(), world.size());
      Engine engine(world, model, {.rows = 64});
      logits_of(engine, golden_prompts(golden_folder(name))[1].ids);
      return engine.traffic();
    };
    const EngineTraffic parallel = traffic_of("neox"), serial = traffic_of("neox-serial"), olmo = traffic_of("olmo2");
    EXPECT_EQ(parallel.syncs_made, 3);
    EXPECT_EQ(serial.syncs_made, 6);
    EXPECT_EQ(2 * parallel.block_bytes, serial.block_bytes);
    EXPECT_GT(olmo.block_bytes, serial.block_bytes);
    EXPECT_LT(olmo.block_bytes, 2 * serial.block_bytes);
  });
}

// A prompt whose activations are rounded to bf16 stays near the one whose are not; a token alone is never rounded.
TEST(Engine, RoundsActivationsOfPromptsWhereThatIsAskedFor) {
  for (const int ranks : {1, 2})
    World::local(ranks, [&](World& world) {
      const Model model = Model::load(kWeft16, world.rank(), world.size());
      std::vector<int> ids(40);
      std::iota(ids.begin(), ids.end(), 5);
      Engine exact(world, model, {.rows = 64}), rounded(world, model, {.rows = 64, .activations = Dtype::bf16});
      const double far = largest_difference(logits_of(exact, ids), logits_of(rounded, ids));
      EXPECT_LT(far, 2e-2);
      EXPECT_EQ(far > 0, has_bf16_products());
      const std::span<const int> one(ids.data(), 1);
      EXPECT_EQ(logits_of(exact, one), logits_of(rounded, one));
    });
  expect_refused([] { parse_activations("int4"); }, "int4");
}

// Against blocks computed rank after rank with plain loops (spd/simulated_ranks.h).
TEST(Engine, DroppedBlocksAreWhatTheFactsSay) {
  for (const std::string& folder : {kGqa, kUntied, kOpt, golden_folder("qwen2"), golden_folder("qwen3"),
                                    golden_folder("granite"), golden_folder("smollm3"), golden_folder("gpt2")})
    for (const int ranks : {2, 3, 8}) {
      const auto ids = golden_prompts(folder)[2].ids;
      const std::vector<BlockOrder> orders{BlockOrder::dropped, BlockOrder::sync, BlockOrder::dropped};
      const WindowScore want = SimulatedRanks(open_model(folder), ranks, 64, 1).score(ids, orders);
      World::local(ranks, [&](World& world) {
        const Model model = Model::load(folder, world.rank(), world.size());
        Engine engine(world, model, {.rows = 64});
        engine.set_modes(std::vector<BlockMode>{{.drop = true}, {}, {.drop = true}});
        const Feed feed{0, std::span(ids).first(ids.size() - 1)};
        engine.forward({&feed, 1});
        double sum = 0;
        for (const TokenScore& score : engine.score(std::span(ids).subspan(1))) sum += score.log_probability;
        EXPECT_NEAR(sum, want.log_probability, 1e-4 * std::abs(want.log_probability)) << folder << ' ' << ranks;
      });
    }
}

TEST(Engine, EveryDroppedSynchronisationSavesItsBytes) {
  for (const int ranks : {2, 3, 4})
    for (const Style form : {Style::fused, Style::sequential, Style::panels})
      World::local(ranks, [&](World& world) {
        const Model model = Model::load(kWeft16, world.rank(), world.size());
        Engine engine(world, model, {.rows = 64, .sync = form});
        const auto ids = golden_prompts(kWeft16)[1].ids;
        logits_of(engine, ids);
        const std::int64_t whole = engine.traffic().block_bytes;
        EXPECT_EQ(engine.traffic().syncs_made, 32);
        EXPECT_GT(whole, 0);
        engine.set_modes(all_blocks(engine, {.drop = true}));
        logits_of(engine, ids);
        EXPECT_EQ(2 * (engine.traffic().block_bytes - whole), whole);
        EXPECT_EQ(engine.traffic().syncs_made, 48);
        EXPECT_EQ(engine.traffic().syncs_dropped, 16);
      });
}

TEST(Engine, NothingDroppedIsPlainTensorParallelism) {
  World::local(3, [&](World& world) {
    const Model model = Model::load(kGqa, world.rank(), world.size());
    const auto ids = golden_prompts(kGqa)[2].ids;
    Engine plain(world, model, {.rows = 64}), other(world, model, {.rows = 64});
    other.set_modes(all_blocks(other, {.drop = true}));
    const auto dropped = logits_of(other, ids);
    other.set_modes(all_blocks(other, {}));
    EXPECT_EQ(logits_of(plain, ids), logits_of(other, ids));
    EXPECT_NE(logits_of(plain, ids), dropped);
  });
}

TEST(Engine, EveryFormAndWireGivesTheSameLogits) {
  for (const std::string& folder : {kGqa, kOpt, golden_folder("gemma3"), golden_folder("neox")})
    World::local(3, [&](World& world) {
      const Model model = Model::load(folder, world.rank(), world.size());
      const GoldenPrompt prompt = golden_prompts(folder)[2];
      for (const Style form : {Style::sequential, Style::panels}) {
        Engine engine(world, model, {.rows = 48, .sync = form});
        EXPECT_LT(golden_error(prompt, logits_of(engine, prompt.ids)), kTolerance) << to_string(form);
      }
      Engine engine(world, model, {.rows = 48});
      engine.set_modes(all_blocks(engine, {.wire = BlockWire::bf16}));
      EXPECT_LT(golden_error(prompt, logits_of(engine, prompt.ids)), 0.03);
      engine.set_modes(all_blocks(engine, {.wire = BlockWire::int8}));
      const double int8_error = golden_error(prompt, logits_of(engine, prompt.ids));
      EXPECT_LT(int8_error, 0.05);
      EXPECT_GT(int8_error, kTolerance);  // it did travel as int8
    });
}

TEST(Engine, PromptsMayBeCutAnywhere) {
  for (const std::string& folder : golden_folders())
    World::local(2, [&](World& world) {
      const Model model = Model::load(folder, world.rank(), world.size());
      Engine engine(world, model, {.sequences = 2, .rows = 64});
      const auto ids = golden_prompts(folder)[2].ids;
      const auto whole = logits_of(engine, ids);
      const std::size_t vocab = whole.size() / ids.size();
      const std::span<const float> last(whole.data() + whole.size() - vocab, vocab);
      for (const std::size_t step : {std::size_t{1}, std::size_t{7}}) {
        engine.clear(1);
        for (std::size_t at = 0; at < ids.size(); at += step) {
          const Feed feed{1, std::span(ids).subspan(at, std::min(step, ids.size() - at))};
          engine.forward({&feed, 1});
        }
        const int row = static_cast<int>(engine.rows()) - 1;
        EXPECT_LT(largest_difference(last, engine.logits({&row, 1})), kTolerance) << folder << ' ' << step;
      }
    });
}

TEST(Engine, ABatchIsEachOfItsSequences) {
  for (const std::string& folder : {kGqa, kOpt})
    World::local(2, [&](World& world) {
      const Model model = Model::load(folder, world.rank(), world.size());
      Engine engine(world, model, {.sequences = 3, .rows = 64});
      const auto prompts = golden_prompts(folder);
      std::vector<Feed> feeds;
      for (std::size_t i = 0; i < 3; ++i) feeds.push_back({static_cast<int>(i), prompts[i].ids});
      engine.forward(feeds);
      const auto together = engine.logits(all_rows(engine));
      std::size_t at = 0;
      for (const GoldenPrompt& prompt : prompts) {
        const std::size_t size = prompt.rows.values.size();
        EXPECT_LT(golden_error(prompt, {together.begin() + at, together.begin() + (at + size)}), kTolerance);
        at += size;
      }
      // And one more token of each, all of different lengths; sequence 1 from a copy of 2, cut back.
      engine.copy_sequence(2, 1, 20);
      const int next = 5;
      const Feed more[] = {{1, {&next, 1}}, {0, {&next, 1}}};
      engine.forward(more);
      const auto both = engine.logits(std::vector<int>{0, 1});
      auto longer = prompts[2].ids;
      longer.resize(20);
      longer.push_back(next);
      const auto alone = logits_of(engine, longer);
      const std::size_t vocab = both.size() / 2;
      EXPECT_LT(largest_difference({alone.data() + alone.size() - vocab, vocab}, {both.data(), vocab}), kTolerance);
    });
}

TEST(Engine, PartsOfTheModelMakeTheWhole) {
  World::local(2, [&](World& world) {
    const Model model = Model::load(kOpt, world.rank(), world.size());
    Engine engine(world, model, {.rows = 64});
    const auto ids = golden_prompts(kOpt)[2].ids;
    const Feed feed{0, ids};
    engine.forward({&feed, 1});
    const std::vector<float> whole(engine.hidden().begin(), engine.hidden().end());
    engine.clear(0);
    engine.forward_blocks(0, 2, {&feed, 1}, {});
    const std::vector<float> between(engine.residual().begin(), engine.residual().end());
    engine.clear(0);
    engine.forward_blocks(2, 3, {&feed, 1}, between);
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), engine.hidden().begin(), engine.hidden().end()));
  });
}

TEST(Engine, SaysWhatItCannotTake) {
  World::local(1, [&](World& world) {
    const Model model = Model::load(kGqa), other(open_model(kGqa), 0, 2);
    expect_refused([&] { Engine(world, other, {}); }, "loaded for rank 0 of 2");
    expect_refused([&] { Engine(world, model, {.capacity = 1000}); }, "knows 256 positions");
    Engine engine(world, model, {.capacity = 8, .rows = 6});
    const std::vector<int> ids{1, 2, 3, 4, 5, 6, 7}, strange{1, 256};
    const auto feed = [&](std::span<const int> tokens, int sequence = 0) {
      const Feed one{sequence, tokens};
      engine.forward({&one, 1});
    };
    expect_refused([&] { feed(ids); }, "takes 1 to 6");
    expect_refused([&] { feed(strange); }, "token 256");
    expect_refused([&] { feed({ids.data(), 2}, 1); }, "sequence 1");
    feed({ids.data(), 6});
    expect_refused([&] { feed({ids.data(), 3}); }, "has room for 8");
    expect_refused([&] { engine.truncate(0, 7); }, "cannot be cut to 7");
    expect_refused([&] { engine.set_modes({}); }, "0 modes for 3 blocks");
    expect_refused([&] { engine.score(ids); }, "7 targets for 6 rows");
  });
}

}  // namespace
}  // namespace weft
