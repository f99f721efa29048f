// `weft spd` as its users see it: sensitivity that agrees with PyTorch's, a choice that keeps its bound, the ablation.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/llm/spd/spd_file.h"

#include "tests/cli/json.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::string kModel = std::string(WEFT_SOURCE) + "/models/weft-16";

class SpdCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("weft_spd_cli_{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(SpdCommand, HelpAloneTellsTheWay) {
  const Ended ended = weft("spd --help");
  EXPECT_EQ(ended.code, 0);
  for (const char* part : {"weft eval --model DIR", "weft spd analyze --model DIR", "weft spd distill --model DIR",
                           "weft generate", "--max-loss 1%", "drop+int8", "docs/spd.md"})
    EXPECT_NE(ended.out.find(part), std::string::npos) << part;
}

TEST_F(SpdCommand, SensitivityClassesAndCurve) {
  const Json found =
      parsed(weft(fmt::format("spd analyze --model {0} --tp 4 --text {0}/heldout.txt --window 256 --samples 4 --drop 3 "
                              "--out {1} --svg {2} --json",
                              kModel, file("a.spd"), file("a.svg"))));
  ASSERT_EQ(found["blocks"].size(), 16u);
  std::vector<double> s;
  for (const Json& block : found["blocks"]) s.push_back(block["sensitivity"]);
  EXPECT_EQ(std::max_element(s.begin(), s.end()) - s.begin(), 0) << "block 0 suffers most";
  EXPECT_GT(s[0], 3.0);
  ASSERT_EQ(found["curve"].size(), 17u);
  EXPECT_EQ(found["curve"][0], found["perplexity"]);
  EXPECT_LT(found["curve"][4], found["curve"][16]);
  EXPECT_EQ(found["evaluations"], 17 + 15);
  const SpdFile spd = load_spd(file("a.spd"));
  EXPECT_EQ(num_dropped(spd.blocks), 3);
  EXPECT_EQ(spd.tp, 4);
  EXPECT_EQ(spd.sensitivity.size(), 16u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(spd.blocks[found["order"][at(i)].get<std::size_t>()].drop);
  std::ifstream svg(file("a.svg"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(svg), {}).find("<svg"), 0u);
}

TEST_F(SpdCommand, AChoiceKeepsItsBoundOnTextThatWasNotSearched) {
  const Json found = parsed(weft(fmt::format(
      "spd analyze --model {0} --tp 2 --text {0}/calibration.txt --heldout {0}/heldout.txt --window 128 --samples 4 "
      "--modes drop --max-loss 2% --no-curve --link 100mbit,20us --prompt 64 --rounds 3 --measurements 12 --out {1} "
      "--json",
      kModel, file("b.spd"))));
  const Json& chosen = found["chosen"];
  EXPECT_LE(chosen["heldout_loss"], 0.02);
  EXPECT_LE(chosen["calibration_loss"], 0.02);
  EXPECT_LE(chosen["searched"], 12);
  EXPECT_LT(found["times"][1]["forward_us"], found["times"][0]["forward_us"]) << "at 100 Mbit/s dropping saves time";
  const SpdFile spd = load_spd(file("b.spd"));
  EXPECT_GT(num_dropped(spd.blocks), 0);
  EXPECT_LT(num_dropped(spd.blocks), 16);
  EXPECT_FALSE(spd.blocks[0].drop) << "block 0 alone loses more than the bound";
}

TEST_F(SpdCommand, WrongOrdersOfSumsAreWorse) {
  const Json found = parsed(weft(
      fmt::format("spd ablate --model {0} --text {0}/heldout.txt --tp 4 --samples 2 --window 256 --json", kModel)));
  const auto perplexity_of = [&](const char* kind, const char* order) {
    for (const Json& row : found[kind])
      if (row["order"] == order) return row["perplexity"].get<double>();
    ADD_FAILURE() << order;
    return 0.0;
  };
  EXPECT_LT(perplexity_of("partial_sums", "sync"), perplexity_of("partial_sums", "dropped"));
  EXPECT_LT(perplexity_of("partial_sums", "dropped"), perplexity_of("partial_sums", "partial_after"));
  EXPECT_NEAR(perplexity_of("biases", "sync") / perplexity_of("partial_sums", "sync"), 1, 1e-3) << "the same model";
  EXPECT_LT(perplexity_of("biases", "dropped"), perplexity_of("biases", "bias_before"));
}

TEST_F(SpdCommand, RefusesInASentence) {
  const std::string base = fmt::format("spd analyze --model {0} --text {0}/heldout.txt ", kModel);
  const struct {
    std::string words, says;
  } cases[] = {
      {base + "--tp 0", "--tp is 0"},
      {base + "--tp 2 --max-loss much", "--max-loss is \"much\"; give a share below one, as 1% or 0.01"},
      {base + "--tp 2 --modes drop,int4", "unknown mode \"int4\""},
      {base + "--tp 2 --out x.spd", "give --max-loss 1% or --drop isb"},
      {base + "--tp 2 --max-loss 1% --drop 3", "leave one out"},
      {base + "--tp 2 --window 9999", "the model's length"},
  };
  for (const auto& [words, says] : cases) {
    const Ended ended = weft(words);
    EXPECT_EQ(ended.code, 2) << words << ": " << ended.err;
    EXPECT_NE(ended.err.find(says), std::string::npos) << words << ": " << ended.err;
  }
}

// Means of other text than is scored: dropping all blocks loses less than without them.
TEST_F(SpdCommand, CentringHelpsDroppedBlocks) {
  const Json made = parsed(weft(
      fmt::format("spd centre --model {0} --tp 4 --text {0}/calibration.txt --out {1} --samples 4 --window 256 --json",
                  kModel, folder_.string())));
  EXPECT_EQ(made["spd"], file("centred.spd"));
  EXPECT_EQ(made["blocks"], 16);
  SpdFile plain = load_spd(file("centred.spd"));
  plain.weights.clear(), plain.weights_sha256.clear();
  save_spd(plain, file("plain.spd"));
  const auto perplexity = [&](const std::string& name) {
    return parsed(weft(
        fmt::format("eval --model {0} --ranks 4 --spd {1} --text {0}/heldout.txt --limit 8 --window 256 --json", kModel,
                    file(name))))["perplexity"]
        .get<double>();
  };
  EXPECT_LT(perplexity("centred.spd"), 0.9 * perplexity("plain.spd"));
}

}  // namespace
}  // namespace weft::testing
