// `weft quantize` as its users see it: a GGUF file that `generate` runs, and sentences for what cannot be written.
#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

const std::string kQuantised = std::string(WEFT_SOURCE) + "/models/weft-16";

TEST(QuantizeCommand, WritesAFileThatGeneratesText) {
  const std::string file = ::testing::TempDir() + "/weft_16.gguf";
  const Ended made = weft({"quantize", kQuantised, "--type", "q8_0", "--out", file, "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const nlohmann::json report = nlohmann::json::parse(made.out);
  EXPECT_EQ(report["tensors"]["q8_0"], 16 * 7 + 1);
  EXPECT_EQ(report["tensors"]["f32"], 16 * 2 + 1);
  EXPECT_TRUE(report["has_tokenizer"].get<bool>());
  EXPECT_EQ(report["bytes_written"].get<std::int64_t>() < 0.54 * report["bytes_read"].get<double>(), true);
  const auto text = [&](const std::string& model, const char* ranks) {
    const Ended ended = weft({"generate", "--model", model, "--prompt", "Once upon a time", "--max-tokens", "6",
                              "--ranks", ranks, "--json"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.code == 0 ? nlohmann::json::parse(ended.out)["text"].get<std::string>() : "";
  };
  const std::string wanted = text(kQuantised, "1");
  EXPECT_EQ(text(file, "1"), wanted);  // six tokens, none of them a near tie
  EXPECT_EQ(text(file, "2"), wanted);
  std::remove(file.c_str());
}

TEST(QuantizeCommand, CalibratesAMix) {
  const std::string file = ::testing::TempDir() + "/weft_16_mix.gguf", text = ::testing::TempDir() + "/weft_16_few.txt";
  std::filesystem::copy_file(kQuantised + "/prompt.txt", text, std::filesystem::copy_options::overwrite_existing);
  const Ended short_text =
      weft({"quantize", kQuantised, "--type", "q4_k_m", "--calibrate", text, "--out", file, "--json"});
  EXPECT_EQ(short_text.code, 2) << "not one window";
  EXPECT_FALSE(std::filesystem::exists(file));
  std::filesystem::copy_file(kQuantised + "/calibration.txt", text, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(text, 12000);  // two windows
  const Ended made = weft({"quantize", kQuantised, "--type", "q4_k_m", "--calibrate", text, "--out", file, "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const nlohmann::json report = nlohmann::json::parse(made.out);
  EXPECT_EQ(report["type"], "q4_k_m");
  EXPECT_EQ(report["tensors"]["q6_k"], 17);
  EXPECT_GT(report["bits_per_weight"].get<double>(), 4.8);
  EXPECT_LT(report["bits_per_weight"].get<double>(), 5.4);
  std::remove(file.c_str());
  std::remove(text.c_str());
}

// The file has been written when the report is: a name costs no report.
TEST(QuantizeCommand, ANameThatIsNoUtf8IsReported) {
  const std::string file = ::testing::TempDir() + "/weft_\xff.gguf";
  const Ended made = weft({"quantize", kQuantised, "--type", "q8_0", "--out", file, "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("weft_\xef\xbf\xbd.gguf"), std::string::npos) << made.out;
  EXPECT_TRUE(std::filesystem::remove(file));
}

TEST(QuantizeCommand, RefusesInASentence) {
  const std::string file = ::testing::TempDir() + "/weft_none.gguf";
  const Ended type = weft({"quantize", kQuantised, "--type", "q3_k", "--out", file});
  EXPECT_EQ(type.code, 2);
  EXPECT_NE(type.err.find("unknown type \"q3_k\"; use one of q8_0, q4_0, q4_k, q6_k, q4_k_m"), std::string::npos)
      << type.err;
  const Ended model = weft({"quantize", "/no/such/model", "--out", file});
  EXPECT_EQ(model.code, 2);
  EXPECT_NE(model.err.find("/no/such/model"), std::string::npos);
  EXPECT_EQ(weft({"quantize", kQuantised}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace weft::testing
