#include "weft/llm/quantise/calibration.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/quantise/quantise_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kCalibrated = std::string(WEFT_SOURCE) + "/models/weft-16";

// The first blocks of the trained model: inputs of its products are as uneven as those of any, and two blocks are
// quick enough for every sanitizer.
class TwoBlocks : public ScratchFolder {
 public:
  TwoBlocks() {
    for (const auto& entry : std::filesystem::directory_iterator(kCalibrated)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("model") || name.starts_with("tokenizer"))
        std::filesystem::create_symlink(entry.path(), file(name));
    }
    Json config = Json::parse(std::ifstream(kCalibrated + "/config.json"));
    config["num_hidden_layers"] = 2;
    write("config.json", config.dump());
  }
};

// What leaves the model for a stretch of a text, behind the last norm.
std::vector<float> hidden_of(const std::string& model, const std::string& text) {
  std::vector<float> hidden;
  World::local(1, [&](World& world) {
    const std::vector<int> tokens = Tokenizer::load(kCalibrated)->encode(text);
    const Model loaded(open_model(model), 0, 1);
    Engine engine(world, loaded, {.capacity = std::ssize(tokens), .rows = std::ssize(tokens)});
    const Feed feed{0, tokens};
    engine.forward({&feed, 1});
    hidden.assign(engine.hidden().begin(), engine.hidden().end());
  });
  return hidden;
}

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum;
}

// On a text that is not the one it was calibrated on.
TEST(Calibration, KeepsMoreOfTheModelThanRoundingOneByOne) {
  const TwoBlocks folder;
  const std::string plain = folder.file("plain.gguf"), calibrated = folder.file("calibrated.gguf");
  quantise_model(folder.path(), plain, {.type = Dtype::q4_k, .threads = 2});
  const QuantiseReport report = quantise_model(
      folder.path(), calibrated,
      {.type = Dtype::q4_k, .calibrate = kCalibrated + "/calibration.txt", .tokens = 1024, .threads = 2});
  EXPECT_EQ(report.tensors.at("q4_k"), 2 * 7);
  std::string text(1024, ' ');
  std::ifstream(kCalibrated + "/heldout.txt").read(text.data(), std::ssize(text));
  const std::vector<float> whole = hidden_of(folder.path(), text);
  ASSERT_FALSE(whole.empty());
  const double lost = squared_distance(hidden_of(plain, text), whole),
               kept = squared_distance(hidden_of(calibrated, text), whole);
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
