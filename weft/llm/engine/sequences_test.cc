// Sequences of one engine: cut, copied and counted; and the ways to ask for what follows them.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/llm/engine/engine.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kGqaFolder = std::string(WEFT_SOURCE) + "/tests/models/llama-gqa";

const std::vector<int> kFirst{5, 9, 2, 7}, kThen{1, 3}, kOther{8, 8, 4};

std::vector<float> feed(Engine& engine, int sequence, const std::vector<int>& tokens) {
  const Feed one{sequence, tokens};
  engine.forward({&one, 1});
  const int last = static_cast<int>(engine.rows()) - 1;
  return engine.logits({&last, 1});
}

void with_engine(int ranks, const EngineOptions& options, const std::function<void(World&, Engine&)>& body) {
  World::local(ranks, [&](World& world) {
    const Model model = Model::load(kGqaFolder, world.rank(), world.size());
    Engine engine(world, model, options);
    body(world, engine);
  });
}

TEST(Sequences, ACutOneGoesOnAsIfTheRestHadNeverBeen) {
  with_engine(2, {.sequences = 2, .capacity = 16, .rows = 8}, [](World&, Engine& engine) {
    feed(engine, 0, kFirst);
    const std::vector<float> want = feed(engine, 0, kThen);
    feed(engine, 1, kFirst);
    feed(engine, 1, kOther);
    engine.truncate(1, std::ssize(kFirst));
    EXPECT_EQ(engine.length(1), std::ssize(kFirst));
    EXPECT_EQ(feed(engine, 1, kThen), want);
    engine.clear(1);
    EXPECT_EQ(engine.length(1), 0);
    feed(engine, 1, kFirst);
    EXPECT_EQ(feed(engine, 1, kThen), want);
  });
}

TEST(Sequences, ACopyGoesOnAsItsOriginal) {
  with_engine(2, {.sequences = 3, .capacity = 16, .rows = 8}, [](World&, Engine& engine) {
    feed(engine, 0, kFirst);
    engine.copy_sequence(0, 2, std::ssize(kFirst));
    const std::vector<float> want = feed(engine, 0, kThen);
    feed(engine, 0, kOther);
    EXPECT_EQ(engine.length(2), std::ssize(kFirst));
    EXPECT_EQ(feed(engine, 2, kThen), want) << "what the original does later is its own";
    engine.copy_sequence(0, 1, 2);
    EXPECT_EQ(engine.length(1), 2);
    feed(engine, 1, {kFirst[2], kFirst[3]});
    EXPECT_EQ(feed(engine, 1, kThen), want) << "a part of it is a beginning";
  });
}

TEST(Sequences, WhatThereIsNotIsRefused) {
  with_engine(1, {.sequences = 2, .capacity = 16, .rows = 8}, [](World&, Engine& engine) {
    feed(engine, 0, kFirst);
    EXPECT_NE(refusal([&] { engine.truncate(0, 5); }).find("cannot be cut to 5"), std::string::npos);
    EXPECT_NE(refusal([&] { engine.truncate(0, -1); }), "did not throw");
    EXPECT_NE(refusal([&] { engine.length(2); }).find("sequence 2 of an engine that has 2"), std::string::npos);
    EXPECT_NE(refusal([&] { engine.clear(-1); }), "did not throw");
    EXPECT_NE(refusal([&] { engine.copy_sequence(0, 1, 5); }), "did not throw");
    EXPECT_NE(refusal([&] { engine.copy_sequence(0, 2, 1); }), "did not throw");
    EXPECT_NE(refusal([&] { engine.set_modes(Modes(1)); }).find("modes for"), std::string::npos);
    EXPECT_EQ(engine.length(0), 4) << "a refusal changes nothing";
  });
}

// Three ways to look at the same rows.
TEST(Sequences, LogitsGreedyAndScoresAgree) {
  for (const int ranks : {1, 3})
    with_engine(ranks, {.sequences = 1, .capacity = 16, .rows = 8}, [](World&, Engine& engine) {
      const Feed one{0, kFirst};
      engine.forward({&one, 1});
      std::vector<int> rows(kFirst.size());
      std::iota(rows.begin(), rows.end(), 0);
      const std::vector<float> logits = engine.logits(rows);
      const std::vector<int> greedy = engine.greedy(rows);
      const std::size_t vocab = logits.size() / rows.size();
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto begin = logits.begin() + (r * vocab);
        const auto end = begin + static_cast<std::ptrdiff_t>(vocab);
        EXPECT_EQ(greedy[r], std::max_element(begin, end) - begin);
      }
      const std::vector<TokenScore> best = engine.score(greedy);
      std::vector<int> none(rows.size(), -1);
      const std::vector<TokenScore> skipped = engine.score(none);
      for (std::size_t r = 0; r < rows.size(); ++r) {
        double sum = 0;
        for (std::size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[r * vocab + i]));
        EXPECT_NEAR(best[r].log_probability, logits[r * vocab + at(greedy[r])] - std::log(sum), 1e-4);
        EXPECT_TRUE(best[r].is_greedy);
        EXPECT_GE(best[r].margin, 0);
        EXPECT_EQ(skipped[r].log_probability, 0);
        EXPECT_FALSE(skipped[r].is_greedy);
      }
    });
}

TEST(Sequences, BytesOfAllRanksAreTheirSum) {
  std::mutex mutex;
  std::int64_t blocks = 0, head = 0;
  std::vector<EngineTraffic> told;
  with_engine(3, {.sequences = 1, .capacity = 16, .rows = 8}, [&](World& world, Engine& engine) {
    feed(engine, 0, kFirst);
    const EngineTraffic own = engine.traffic(), all = with_all_bytes(world, own);
    const std::lock_guard lock(mutex);
    blocks += own.block_bytes, head += own.head_bytes;
    told.push_back(all);
    EXPECT_EQ(all.syncs_made, own.syncs_made) << "the rest is this rank's";
  });
  for (const EngineTraffic& all : told) {
    EXPECT_EQ(all.block_bytes, blocks);
    EXPECT_EQ(all.head_bytes, head);
  }
  EXPECT_GT(blocks, 0);
}

TEST(EngineTraffic, EveryFigureIsAdded) {
  EngineTraffic sum{1, 2, 3, 4, 0.5, 0.25, 0.125};
  sum += {10, 20, 30, 40, 5, 2.5, 1.25};
  EXPECT_EQ(sum.block_bytes, 11);
  EXPECT_EQ(sum.head_bytes, 22);
  EXPECT_EQ(sum.syncs_made, 33);
  EXPECT_EQ(sum.syncs_dropped, 44);
  EXPECT_EQ(sum.block_op_s, 5.5);
  EXPECT_EQ(sum.forward_s, 2.75);
  EXPECT_EQ(sum.head_s, 1.375);
}

}  // namespace
}  // namespace weft
