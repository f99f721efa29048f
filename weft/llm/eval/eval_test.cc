// Scores through batches and shared caches against the plain way: all logits of one sequence at a time.
#include "weft/llm/eval/eval.h"

#include <cmath>
#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/llm/eval/random_tokens_test.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kGqa = std::string(WEFT_SOURCE) + "/tests/models/llama-gqa";
const std::string kOpt = std::string(WEFT_SOURCE) + "/tests/models/opt-bias";

// The log-probability of each token but the first, and whether it was the largest, from whole rows of logits.
std::vector<TokenScore> plainly(Engine& engine, const std::vector<int>& tokens) {
  engine.clear(0);
  const Feed feed{0, std::span(tokens).first(tokens.size() - 1)};
  engine.forward({&feed, 1});
  std::vector<int> rows(tokens.size() - 1);
  for (int i = 0; i < int_size(rows); ++i) rows[at(i)] = i;
  const std::vector<float> logits = engine.logits(rows);
  const std::size_t vocab = logits.size() / rows.size();
  std::vector<TokenScore> scores;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double sum = 0, other = -1e30;
    const auto target = num(tokens[r + 1]);
    for (std::size_t i = 0; i < vocab; ++i) {
      sum += std::exp(static_cast<double>(logits[r * vocab + i]));
      if (i != target) other = std::max(other, static_cast<double>(logits[r * vocab + i]));
    }
    const double logit = logits[r * vocab + target];
    scores.push_back({logit - std::log(sum), logit - other, logit > other});
  }
  engine.clear(0);
  return scores;
}

TEST(Eval, WindowsThatShareAForwardScoreAsAlone) {
  for (const std::string& folder : {kGqa, kOpt})
    World::local(2, [&](World& world) {
      const Model model = Model::load(folder, world.rank(), world.size());
      const std::vector<int> stream = random_tokens(7 * 20 + 5, model.config().vocab, 1);
      const auto windows = cut_windows(stream, 20);
      ASSERT_EQ(windows.size(), 7u);
      Engine engine(world, model, {.sequences = 3, .capacity = 20, .rows = 57});
      const auto scores = score_windows(engine, windows);
      for (std::size_t w = 0; w < windows.size(); ++w) {
        double sum = 0;
        for (const TokenScore& score : plainly(engine, {windows[w].begin(), windows[w].end()}))
          sum += score.log_probability;
        EXPECT_NEAR(scores[w].log_probability, sum, 1e-3) << folder << " window " << w;
        EXPECT_EQ(scores[w].tokens, 19);
      }
    });
}

// Items of one and of several choices, of unlike lengths: what a shared context gives is what the whole sequence gives.
TEST(Eval, ItemsThatShareAContextScoreAsWholeSequences) {
  std::vector<TaskItem> items;
  std::vector<TaskUnit> units;
  std::mt19937 random(5);
  for (std::size_t i = 0; i < 23; ++i) {
    TaskItem& item = items.emplace_back();
    item.kind = i % 3 == 0 ? TaskKind::last_word : TaskKind::continuation;
    item.choices.assign(i % 3 == 0 ? 1 : 2 + i % 3, "four");
    item.answer = static_cast<int>(i % item.choices.size());
    TaskUnit& unit = units.emplace_back();
    unit.item = i;
    unit.context = random_tokens(1 + random() % 12, 128, static_cast<unsigned>(i));
    for (std::size_t c = 0; c < item.choices.size(); ++c)
      unit.choices.push_back(random_tokens(1 + random() % 5, 128, static_cast<unsigned>(100 * i + c)));
  }
  World::local(3, [&](World& world) {
    const Model model = Model::load(kGqa, world.rank(), world.size());
    const UnitSizes sizes = unit_sizes(units);
    Engine engine(world, model, {.sequences = 4, .capacity = sizes.capacity, .rows = 40});
    const auto found = score_items(engine, items, units);
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::vector<double> sums;
      ItemScore want;
      for (const auto& choice : units[i].choices) {
        std::vector<int> whole = units[i].context;
        whole.insert(whole.end(), choice.begin(), choice.end());
        const auto scores = plainly(engine, whole);
        double sum = 0, lead = 1e30;
        bool greedy = true;
        for (std::size_t r = scores.size() - choice.size(); r < scores.size(); ++r) {
          sum += scores[r].log_probability;
          lead = std::min(lead, scores[r].margin);
          greedy &= scores[r].is_greedy;
        }
        sums.push_back(sum);
        want = {greedy, lead};
      }
      if (items[i].kind == TaskKind::continuation) want = judge_continuation(items[i], sums);
      EXPECT_EQ(found[i].right, want.right) << "item " << i;
      EXPECT_NEAR(found[i].margin, want.margin, 1e-3) << "item " << i;
    }
  });
}

TEST(Eval, TheSameNumbersAtAnyNumberOfRanks) {
  std::vector<std::vector<WindowScore>> found;
  for (const int ranks : {1, 2, 3, 5})
    World::local(ranks, [&](World& world) {
      const Model model = Model::load(kOpt, world.rank(), world.size());
      const std::vector<int> stream = random_tokens(4 * 24, model.config().vocab, 9);
      Engine engine(world, model, eval_engine(model.config(), 24, 23));
      const auto scores = score_windows(engine, cut_windows(stream, 24));
      if (world.rank() == 0) found.push_back(scores);
    });
  for (const auto& scores : found)
    for (std::size_t w = 0; w < scores.size(); ++w)
      EXPECT_NEAR(scores[w].log_probability, found[0][w].log_probability, 1e-3);
}

TEST(Eval, WindowsHaveLimits) {
  ModelConfig config;
  config.max_positions = 4096;
  EXPECT_EQ(window_length(config, 0), 2048);
  config.max_positions = 1024;
  EXPECT_EQ(window_length(config, 0), 1024);
  EXPECT_EQ(refusal([&] { window_length(config, 2000); }),
            "a window of 2000 tokens; use 2 to 1024, the model's length");
  const std::vector<int> stream(100);
  EXPECT_EQ(cut_windows(stream, 30, 2).size(), 2u);
  EXPECT_NE(refusal([&] { cut_windows(stream, 101); }).find("less than one window of 101"), std::string::npos);
}

}  // namespace
}  // namespace weft
