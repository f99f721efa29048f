#include "weft/llm/quantise/calibration.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/eval/evaluate.h"
#include "weft/llm/quantise/quantise_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kCalibrated = std::string(WEFT_SOURCE) + "/models/weft-16";

double log_loss(const std::string& model) {
  double loss = 0;
  World::local(1, [&](World& world) {
    const auto tokenizer = Tokenizer::load(kCalibrated);
    const EvalInputs inputs = read_eval_inputs({.text = kCalibrated + "/heldout.txt", .window = 256, .limit = 6},
                                               *tokenizer, load_config(model));
    const Evaluation found = evaluate(world, open_model(model), {}, inputs);
    loss = std::log(perplexity(found.windows));
  });
  return loss;
}

// On a text that is not the one it was calibrated on.
TEST(Calibration, KeepsMoreOfTheModelThanRoundingOneByOne) {
  const ScratchFolder folder;
  const std::string plain = folder.file("plain.gguf"), calibrated = folder.file("calibrated.gguf");
  quantise_model(kCalibrated, plain, {.type = Dtype::q4_k, .threads = 2});
  const QuantiseReport report = quantise_model(
      kCalibrated, calibrated,
      {.type = Dtype::q4_k, .calibrate = kCalibrated + "/calibration.txt", .tokens = 4096, .threads = 2});
  EXPECT_EQ(report.tensors.at("q4_k"), 16 * 7);
  const double whole = log_loss(kCalibrated), lost = log_loss(plain) - whole, kept = log_loss(calibrated) - whole;
  EXPECT_GT(lost, 0);
  EXPECT_LT(kept, 0.75 * lost);
}

TEST(Calibration, AMixGivesHalfOfTheBlocksMoreBits) {
  const ScratchFolder folder;
  const QuantiseReport even = quantise_model(kCalibrated, folder.file("a.gguf"), {.type = Dtype::q4_k, .threads = 2});
  const QuantiseReport more =
      quantise_model(kCalibrated, folder.file("b.gguf"), {.type = Dtype::q4_k, .mix = BitMix::more, .threads = 2});
  EXPECT_EQ(even.tensors.at("q6_k"), 1);  // the embedding
  EXPECT_EQ(more.tensors.at("q6_k"), 1 + 8 * 2);
  EXPECT_GT(even.bits_per_weight, 4.5);
  EXPECT_LT(even.bits_per_weight, 4.9);
  EXPECT_GT(more.bits_per_weight, even.bits_per_weight + 0.2);
  int blocks = 0;
  for (int block = 0; block < 32; ++block) blocks += has_more_bits(block, 32);
  EXPECT_EQ(blocks, 16);
}

TEST(Calibration, BlocksAreAskedForInOrder) {
  World::local(1, [&](World& world) {
    std::vector<int> tokens(64);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i * 97 % 8192);
    const std::vector<TokenWindow> windows = cut_windows(tokens, 32);
    const ModelSource source = open_model(kCalibrated);
    Calibration calibration(world, source, windows);
    EXPECT_EQ(calibration.of(0, BlockPart::q).k(), 256);
    EXPECT_EQ(&calibration.of(0, BlockPart::v), &calibration.of(0, BlockPart::k)) << "they share their inputs";
    EXPECT_EQ(calibration.of(2, BlockPart::down).k(), 768);
    EXPECT_EQ(refusal([&] { calibration.of(1, BlockPart::q); }),
              "block 1 of 16 after block 2; calibrate blocks in order");
    EXPECT_NE(refusal([&] { calibration.of(16, BlockPart::q); }), "did not throw");
    EXPECT_NE(refusal([&] { Calibration(world, source, {}); }), "did not throw");
  });
}

}  // namespace
}  // namespace weft
