#include "weft/nn/gpt.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/nn/cross_entropy.h"
#include "weft/nn/embedding.h"

namespace weft {
namespace {

GptShape small() {
  return {.vocab = 50, .hidden = 24, .layers = 3, .heads = 4, .kv_heads = 2, .mlp = 40, .sequence = 8};
}

TEST(Gpt, TensorsHaveNamesOfTheirOwnAndAddUp) {
  std::vector<GptTensor> tensors{gpt_embedding(small()), gpt_final_norm(small()), gpt_head(small())};
  for (std::int64_t layer = 0; layer < small().layers; ++layer)
    for (const BlockParam param : gpt_block_params()) tensors.push_back(gpt_block_tensor(small(), layer, param));
  std::set<std::string> names;
  std::int64_t elements = 0;
  for (const GptTensor& tensor : tensors) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    elements += tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1);
  }
  EXPECT_EQ(elements, num_parameters(small()));
  EXPECT_TRUE(names.count("model.layers.2.self_attn.k_proj.weight"));
}

TEST(Gpt, BlockParametersLieAsTheBlockExpectsThem) {
  const BlockLayout layout(block_of(small(), 1, 2));
  std::int64_t next = 0;
  for (const BlockParam param : gpt_block_params()) {
    EXPECT_EQ(layout[param].begin, next);
    next += layout[param].size();
  }
  EXPECT_EQ(next, layout.size());
}

TEST(Gpt, FirstValuesDependOnNameAndPlaceAlone) {
  const GptTensor a = gpt_head(small()), b = gpt_embedding(small());
  const FirstValues of_a(small(), a, 1), again(small(), a, 1), of_b(small(), b, 1), other(small(), a, 2);
  EXPECT_EQ(of_a.at(7), again.at(7));
  EXPECT_NE(of_a.at(7), of_a.at(8));
  EXPECT_NE(of_a.at(7), of_b.at(7));
  EXPECT_NE(of_a.at(7), other.at(7));
  EXPECT_EQ(FirstValues(small(), gpt_final_norm(small()), 1).at(3), 1.0f);
  double squares = 0;
  for (int i = 0; i < 1200; ++i) squares += std::pow(of_a.at(i), 2);
  EXPECT_NEAR(std::sqrt(squares / 1200), 0.02, 0.001);
}

TEST(Gpt, SkipsJoinTheHalves) {
  GptShape shape = small();
  EXPECT_EQ(shape.skip_into(2), -1);
  shape.u_shaped = true;
  EXPECT_EQ(shape.skip_into(2), 0);
  EXPECT_EQ(shape.skip_into(1), -1);  // the middle one
  shape.layers = 4;
  EXPECT_EQ(shape.skip_into(2), 1);
  EXPECT_EQ(shape.skip_into(3), 0);
}

TEST(Gpt, SizesThatFitNoModelAreRefused) {
  GptShape shape = small();
  shape.kv_heads = 3;
  EXPECT_NE(refusal([&] { check_gpt(shape); }).find("kv_heads must divide heads"), std::string::npos);
  const auto config = nlohmann::json::parse(llama_config(small(), "float32", 0, 1));
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["eos_token_id"], 1);
}

TEST(CrossEntropy, GradientIsTheSlopeOfTheLoss) {
  ThreadPool pool(2);
  constexpr int kRows = 3, kVocab = 301;
  std::vector<float> logits(kRows * kVocab);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i)) * 4;
  const std::vector<int> targets{0, 300, 17};
  const auto loss = [&](std::vector<float> values) { return cross_entropy(pool, kVocab, targets, 1, values.data()); };
  double want = 0;
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int j = 0; j < kVocab; ++j) sum += std::exp(static_cast<double>(logits[at(row * kVocab + j)]));
    want += std::log(sum) - logits[at(row * kVocab + targets[at(row)])];
  }
  EXPECT_NEAR(loss(logits), want, 1e-5);
  std::vector<float> gradient = logits;
  cross_entropy(pool, kVocab, targets, 0.5f, gradient.data());
  for (const int i : {0, 5, kVocab + 300, 2 * kVocab + 17, 2 * kVocab + 100}) {
    std::vector<float> up = logits, down = logits;
    up[at(i)] += 1e-2f, down[at(i)] -= 1e-2f;
    EXPECT_NEAR(gradient[at(i)], 0.5 * (loss(up) - loss(down)) / 2e-2, 2e-4) << i;
  }
}

TEST(Embedding, BackwardAddsToTheRowsOfTheTokens) {
  ThreadPool pool(2);
  const std::vector<int> tokens{2, 0, 2};
  std::vector<float> table(3 * 20), rows(3 * 20), gradients(3 * 20);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  embed_forward(pool, 20, table.data(), tokens, rows.data());
  EXPECT_EQ(rows[3], 43.0f);
  EXPECT_EQ(rows[23], 3.0f);
  embed_backward(pool, 20, tokens, rows.data(), gradients.data());
  EXPECT_EQ(gradients[43], 86.0f);  // twice
  EXPECT_EQ(gradients[3], 3.0f);
  EXPECT_EQ(gradients[23], 0.0f);
}

}  // namespace
}  // namespace weft
