// Heads centred on their means: the same model to rounding, another one where a block is dropped, and a file that the
// engine runs on any number of its ranks.
#include "weft/llm/spd/centre.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/eval/random_tokens_test.h"
#include "weft/llm/eval/statistics.h"
#include "weft/llm/spd/simulated_ranks.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kSmallModels = std::string(WEFT_SOURCE) + "/tests/models/";
constexpr std::int64_t kWindow = 16;

class Centred : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string folder_ = kSmallModels + GetParam();
  const ModelSource source_ = open_model(folder_);
  const std::vector<int> stream_ = random_tokens(4 * kWindow, source_.config.vocab, 5);
  const std::vector<TokenWindow> windows_ = cut_windows(stream_, kWindow);
  const std::vector<NamedBias> biases_ = centred_biases(source_, measure_head_means(source_, windows_, 1));
};

// With its own biases or without.
TEST_P(Centred, HeadsComputeTheSame) {
  SimulatedRanks plain(source_, 2, kWindow - 1, 1), centred(with_biases(source_, biases_), 2, kWindow - 1, 1);
  const std::vector<BlockOrder> sync(num(source_.config.blocks), BlockOrder::sync);
  std::vector<BlockOrder> wrong = sync, right = sync;
  wrong[0] = BlockOrder::bias_before, right[0] = BlockOrder::dropped;
  for (const auto window : windows_)
    EXPECT_NEAR(centred.score(window, sync).log_probability, plain.score(window, sync).log_probability, 1e-3);
  const auto of = [&](SimulatedRanks& ranks, const std::vector<BlockOrder>& orders) {
    return ranks.score(windows_[0], orders).log_probability;
  };
  EXPECT_GT(std::abs(of(centred, right) - of(plain, right)), 1e-4);    // the other ranks' means are known to it
  EXPECT_GT(std::abs(of(centred, wrong) - of(centred, right)), 1e-4);  // a bias summed by both ranks: another model
}

// After centring, the mean output of every head is zero; up to query heads that share one head of values.
TEST_P(Centred, HeadsHaveNoMean) {
  const auto left = measure_head_means(with_biases(source_, biases_), windows_, 1);
  const std::int64_t d = source_.config.head_dim, group = source_.config.heads_per_kv();
  for (std::int64_t kv = 0; kv < source_.config.kv_heads; ++kv)
    for (std::int64_t c = 0; c < d; ++c) {
      double sum = 0;
      for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) sum += left[0][at(head * d + c)];
      EXPECT_NEAR(sum, 0, 1e-4) << kv << ' ' << c;
    }
}

// Blocks that are dropped have the biases, the others none: what the engine makes of the file is what simulated ranks
// make of the biases, whichever blocks are dropped.
TEST_P(Centred, FileRunsOnTheEngine) {
  const ScratchFolder scratch;
  const std::int64_t blocks = source_.config.blocks;
  write_centred(scratch.path(), {model_hash(folder_), 2, blocks, "test"}, biases_);
  SpdFile spd = load_spd(scratch.file("centred.spd"));
  SimulatedRanks centred(with_biases(source_, biases_), 2, kWindow - 1, 1);
  for (const bool all : {true, false}) {
    if (!all) spd.blocks[0] = {};
    std::vector<BlockOrder> orders(num(blocks), BlockOrder::dropped);
    if (!all) orders[0] = BlockOrder::sync;
    const double want = centred.score(windows_[1], orders).log_probability;
    World::local(2, [&](World& world) {
      const Model model(open_model(folder_, spd, 2), world.rank(), 2);
      Engine engine(world, model, {.sequences = 1, .capacity = kWindow, .rows = kWindow});
      engine.set_modes(spd.blocks);
      const std::vector<TokenWindow> one{windows_[1]};
      EXPECT_NEAR(score_windows(engine, one)[0].log_probability, want, 2e-3);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Centred, ::testing::Values("llama-gqa", "llama-untied", "opt-bias", "qwen2"));

TEST(Centre, RefusesWhatItCannotCentre) {
  const auto refused = [](const std::string& name, const std::vector<std::vector<float>>& means) {
    return refusal([&] { centred_biases(open_model(kSmallModels + name), means); });
  };
  EXPECT_NE(refused("llama-gqa", {}).find("means of 0 blocks"), std::string::npos);
  const ModelConfig config = open_model(kSmallModels + "phi3").config;
  const std::vector<std::vector<float>> means(num(config.blocks),
                                              std::vector<float>(num(config.heads * config.head_dim)));
  EXPECT_NE(refused("phi3", means).find("one tensor with other parts"), std::string::npos);
}

}  // namespace
}  // namespace weft
