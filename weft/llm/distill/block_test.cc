// A rank's block in a world of threads, on the small models of tests/models: the right model, whatever the ranks and
// the order of heads, and the right gradients.
#include "weft/llm/distill/block.h"

#include <mutex>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/llm/distill/activations.h"
#include "weft/llm/distill/head_groups.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/tensor_names.h"
#include "weft/nn/loss.h"

namespace weft {
namespace {

const std::vector<std::string> kBlockModels = {"llama-gqa", "llama-untied", "mistral-window", "opt-bias", "qwen2"};

ModelSource model_of(const std::string& name) { return open_model(std::string(WEFT_SOURCE) + "/tests/models/" + name); }

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(num(count));
  for (float& value : values) value = distribution(engine);
  return values;
}

// Last norm and head, in double.
std::vector<float> logits_of(const ModelSource& model, const std::vector<float>& hidden) {
  const ModelConfig& c = model.config;
  const auto read = [&](const std::string& name, std::int64_t count) {
    std::vector<float> values(num(count));
    widen(*model.tensors->find(name), 0, count, values.data());
    return values;
  };
  const std::string norm_name = final_norm_name(c);
  const std::vector<float> weight = read(norm_name, c.hidden), head = read(head_name(c), c.vocab * c.hidden);
  std::vector<float> bias(weight.size()), normed(hidden.size()), logits;
  const bool opt = c.design.norm == NormKind::layer;
  if (opt) bias = read(final_norm_bias_name(c), c.hidden);
  ThreadPool pool(1);
  NormRows rows;
  const auto count = std::ssize(hidden) / c.hidden;
  norm_forward(pool, count,
               {opt ? NormKind::layer : NormKind::rms, c.hidden, static_cast<float>(c.norm_eps), weight.data(),
                opt ? bias.data() : nullptr},
               {hidden.data(), c.hidden}, {normed.data(), c.hidden}, &rows);
  logits.resize(num(count * c.vocab));
  Products products(&pool);
  linear_forward(products, count, {c.hidden, c.vocab, head.data(), nullptr}, {normed.data(), c.hidden},
                 {logits.data(), c.vocab});
  return logits;
}

TEST(RankBlock, SynchronisedBlocksAreTheModelAtAnyRanksAndOrderOfHeads) {
  for (const std::string& name : kBlockModels)
    for (const int ranks : {1, 3}) {
      const ModelSource model = model_of(name);
      const GoldenPrompt prompt = golden_prompts(std::string(WEFT_SOURCE) + "/tests/models/" + name)[2];
      World::local(ranks, [&](World& world) {
        ThreadPool pool(1);
        RankBlock block(world, model.config, std::ssize(prompt.ids), 1, &pool);
        std::vector<float> x(num(block.values()));
        embed(model.config, *model.tensors, prompt.ids, x.data());
        for (int b = 0; b < model.config.blocks; ++b) {
          std::vector<float> whole = read_block(model.config, *model.tensors, b);
          std::vector<int> order(num(model.config.kv_heads));
          std::iota(order.rbegin(), order.rend(), 0);
          permute_heads(model.config, order, &whole);  // heads the other way round
          block.synchronised(take_shard(model.config, block.shard(), whole).data(), x.data(), x.data());
        }
        if (world.rank() != 0) return;
        EXPECT_LT(golden_error(prompt, logits_of(model, x)), 1e-4) << name << " at " << ranks;
      });
    }
}

// One rank has nothing to synchronise, so dropping changes only the order of sums.
TEST(RankBlock, DroppedIsSynchronisedAtOneRankAndNotAtTwo) {
  for (const std::string& name : kBlockModels)
    for (const int ranks : {1, 2}) {
      const ModelSource model = model_of(name);
      World::local(ranks, [&](World& world) {
        ThreadPool pool(1);
        RankBlock block(world, model.config, 11, 2, &pool);
        const std::vector<float> x = random_values(block.values(), 1);
        const auto weights = take_shard(model.config, block.shard(), read_block(model.config, *model.tensors, 0));
        std::vector<float> sync(x.size()), drop(x.size());
        block.synchronised(weights.data(), x.data(), sync.data());
        block.dropped(weights.data(), x.data(), drop.data());
        float most = 0;
        for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(sync[i] - drop[i]));
        EXPECT_TRUE(ranks == 1 ? most < 1e-4f : most > 1e-2f) << name << " " << most;
      });
    }
}

// Moves one parameter of the whole block along a random direction and back: the change of the loss is the gradient
// along it, with all that ranks hold in common counted once. f32 throughout, so the tolerance is that of its
// differences.
void check_direction(World& world, RankBlock& block, const ModelConfig& config, const std::vector<float>& whole,
                     BlockParam param, const std::vector<float>& gradient) {
  const BlockLayout layout(block_shape(config, shard_of(config, 0, 1)));
  const BlockLayout::Place& place = layout[param];
  if (place.size() == 0 || param == BlockParam::k_bias) return;  // k's bias moves all scores of a query alike
  const std::vector<float> x = random_values(block.values(), 1), target = random_values(block.values(), 2);
  std::vector<float> direction(num(place.size())), out(x.size());
  double along = 0, square = 0;
  for (std::size_t i = 0; i < direction.size(); ++i) square += std::pow(gradient[at(place.begin) + i], 2);
  for (std::size_t i = 0; i < direction.size(); ++i) {  // steepest, of length 1, so that little is lost to rounding
    direction[i] = gradient[at(place.begin) + i] / static_cast<float>(std::sqrt(square));
    along += direction[i] * gradient[at(place.begin) + i];
  }
  ASSERT_GT(square, 0);
  constexpr float kStep = 2e-2f;
  double sides[2];
  for (const int side : {0, 1}) {
    std::vector<float> moved = whole;
    for (std::size_t i = 0; i < direction.size(); ++i)
      moved[at(place.begin) + i] += (side == 0 ? kStep : -kStep) * direction[i];
    block.dropped(take_shard(config, block.shard(), moved).data(), x.data(), out.data());
    sides[side] = mean_square_loss(block.pool(), block.values(), out.data(), target.data(), nullptr);
  }
  if (world.rank() != 0) return;
  EXPECT_NEAR((sides[0] - sides[1]) / (2 * kStep), along, 0.02 * along)
      << config.file << " parameter " << static_cast<int>(param) << " at " << world.size();
}

TEST(RankBlock, GradientsOfWhatRanksShareAreTheBlocks) {
  for (const std::string& name : kBlockModels)
    for (const int ranks : {1, 3, 5}) {  // llama-gqa: 2 key/value heads on 5 ranks; opt-bias: 4 heads on 5
      const ModelConfig config = model_of(name).config;
      const BlockLayout layout(block_shape(config, shard_of(config, 0, 1)));
      std::vector<float> whole = random_values(layout.size(), 3);
      for (float& value : whole) value *= 0.3f;
      World::local(ranks, [&](World& world) {
        ThreadPool pool(1);
        RankBlock block(world, config, 9, 2, &pool);
        const std::vector<float> x = random_values(block.values(), 1), target = random_values(block.values(), 2);
        const std::vector<float> weights = take_shard(config, block.shard(), whole);
        std::vector<float> out(x.size()), gradients(weights.size()), all(whole.size());
        block.dropped(weights.data(), x.data(), out.data());
        mean_square_loss(pool, block.values(), out.data(), target.data(), out.data());
        block.dropped_backward(weights.data(), out.data(), gradients.data());
        put_shard(config, block.shard(), gradients, &all);
        RankSum(world, layout.size()).add_up(all.data());
        double squares = 0;
        for (const float value : all) squares += static_cast<double>(value) * value;
        EXPECT_NEAR(block.squared_norm(gradients.data()), squares, 1e-5 * squares);
        const std::vector<float> again = take_shard(config, block.shard(), all);
        EXPECT_EQ(again, gradients) << "ranks that hold the same parameter have other gradients for it";
        for (int param = 0; param < kBlockParams; ++param)
          check_direction(world, block, config, whole, static_cast<BlockParam>(param), all);
      });
    }
}

TEST(BlockWeights, ShardsAddUpToTheWholeBlock) {
  for (const std::string& name : kBlockModels)
    for (const int ranks : {1, 2, 3, 5, 8}) {
      const ModelSource model = model_of(name);
      const std::vector<float> whole = read_block(model.config, *model.tensors, 1);
      std::vector<float> sum(whole.size());
      for (int rank = 0; rank < ranks; ++rank) {
        const ModelShard shard = shard_of(model.config, rank, ranks);
        std::vector<float> part(whole.size());
        put_shard(model.config, shard, take_shard(model.config, shard, whole), &part);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      EXPECT_EQ(sum, whole) << name << " at " << ranks;
    }
}

}  // namespace
}  // namespace weft
