#include "weft/llm/spd/spd_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/base/sha256.h"

namespace weft {
namespace {

const std::string kHash(64, 'a');

SpdFile sample() {
  SpdFile spd;
  spd.model = kHash;
  spd.tp = 4;
  for (const char* name : {"sync", "bf16", "int8", "drop", "drop+bf16", "drop+int8"})
    spd.blocks.push_back(parse_block_mode(name));
  spd.weights = "repaired.safetensors";
  spd.weights_sha256 = std::string(64, '0');
  spd.sensitivity = {12.5, 1, 0.5, 0.25, -0.125, 0};
  spd.why = "by hand";
  return spd;
}

std::string said(const std::string& text) {
  return refusal([&] { parse_spd(text, "x.spd"); });
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = to_json(sample());
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(SpdFile, ReadsWhatItWrote) {
  const SpdFile spd = parse_spd(to_json(sample()), "folder/x.spd");
  EXPECT_EQ(spd.blocks, sample().blocks);
  EXPECT_EQ(spd.tp, 4);
  EXPECT_EQ(spd.model, kHash);
  EXPECT_EQ(spd.weights_path(), "folder/repaired.safetensors");
  EXPECT_EQ(spd.weights_sha256, sample().weights_sha256);
  EXPECT_EQ(spd.sensitivity, sample().sensitivity);
  EXPECT_EQ(spd.why, "by hand");
  EXPECT_EQ(to_json(spd), to_json(sample()));
}

TEST(SpdFile, RefusalsNameFieldValueAndRemedy) {
  EXPECT_EQ(said(with("\"format\":1", "\"format\":2")),
            "x.spd: \"format\" is 2; this Weft reads format 1, so make the file again with `weft spd analyze`");
  EXPECT_EQ(
      said(with("\"int8\"", "\"int4\"")),
      "x.spd: block 2: unknown mode \"int4\" of a block; use one of sync, bf16, int8, drop, drop+bf16, drop+int8");
  EXPECT_EQ(said(with("\"tp\":4", "\"tp\":0")), "x.spd: \"tp\" is 0; give a whole number from 1 to 4096");
  EXPECT_EQ(
      said(with("\"tp\":4", "\"pt\":4")),
      "x.spd: unknown field \"pt\"; known are format, model, tp, blocks, sensitivity, weights, weights_sha256, why");
  EXPECT_EQ(said(with(kHash, "abc")), "x.spd: \"model\" is \"abc\"; give 64 hexadecimal digits in lower case");
  EXPECT_EQ(said(with("[12.5,", "[")), "x.spd: \"sensitivity\" has 5 numbers for 6 blocks; give one per block");
  for (const char* name : {"../x", "/etc/x", "a/../../x", ""})
    EXPECT_NE(said(with("repaired.safetensors", name)).find("give the name of a file beside the spd file"),
              std::string::npos)
        << name;
  EXPECT_NE(said(R"({"format":1,"model":")" + kHash + R"(","tp":1,"blocks":[]})").find("0 modes"), std::string::npos);
}

TEST(SpdFile, AnotherModelDegreeOrNumberOfBlocksIsRefused) {
  const SpdFile spd = parse_spd(to_json(sample()), "x.spd");
  const auto check = [&](std::string hash, int ranks, int blocks) {
    return refusal([&] { check_spd(spd, {"models/m", hash, ranks, blocks}); });
  };
  EXPECT_NO_THROW(check_spd(spd, {"models/m", kHash, 4, 6}));
  EXPECT_EQ(check(std::string(64, 'b'), 4, 6),
            "x.spd: made for model aaaaaaaaaaaa..., but \"models/m\" is bbbbbbbbbbbb...; make one for this model with "
            "`weft spd analyze`");
  EXPECT_EQ(check(kHash, 8, 6),
            "x.spd: made for 4 ranks, but there are 8; use --ranks 4, or make one with `weft spd analyze --tp 8`");
  EXPECT_EQ(check(kHash, 4, 7), "x.spd: \"blocks\" has 6 modes, but \"models/m\" has 7 blocks; give one mode a block");
}

TEST(SpdFile, WeightsThatWentOrChangedAreRefused) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft_spd_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "x.spd").string();
  std::ofstream(folder / "repaired.safetensors") << "abc";
  SpdFile spd = sample();
  spd.weights_sha256 = file_sha256((folder / "repaired.safetensors").string());
  EXPECT_EQ(spd.weights_sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  save_spd(spd, path);
  EXPECT_NO_THROW(check_spd_weights(load_spd(path)));
  std::ofstream(folder / "repaired.safetensors") << "abd";
  EXPECT_NE(refusal([&] { check_spd_weights(load_spd(path)); }).find("have changed since"), std::string::npos);
  std::filesystem::remove(folder / "repaired.safetensors");
  EXPECT_NE(refusal([&] {
              load_spd(path);
            }).find("are not there; they are a file of their own, so move repaired.safetensors"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

// Weights that lay below the spd file and were moved beside it are found: whoever moves both need not know.
TEST(SpdFile, WeightsThatWereMovedBesideItAreFound) {
  const auto folder = std::filesystem::temp_directory_path() / ("weft_spd_moved_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "repaired");
  std::ofstream(folder / "repaired" / "w.safetensors") << "abc";
  SpdFile spd = sample();
  spd.weights = "repaired/w.safetensors";
  spd.weights_sha256 = file_sha256((folder / "repaired" / "w.safetensors").string());
  const std::string path = (folder / "x.spd").string();
  save_spd(spd, path);
  EXPECT_EQ(load_spd(path).weights_path(), (folder / "repaired" / "w.safetensors").string());
  std::filesystem::rename(folder / "repaired" / "w.safetensors", folder / "w.safetensors");
  const SpdFile moved = load_spd(path);
  EXPECT_EQ(moved.weights_path(), (folder / "w.safetensors").string());
  EXPECT_NO_THROW(check_spd_weights(moved));
  std::filesystem::remove_all(folder);
}

// Bytes changed, cut and doubled at random: each text is read or refused with bad_input, and what is read is valid.
TEST(SpdFile, HostileTextIsReadOrRefused) {
  std::mt19937 random(7);
  const std::string text = to_json(sample());
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string hostile = text;
    for (unsigned edits = 1 + random() % 4; edits > 0 && !hostile.empty(); --edits) {
      const std::size_t at = random() % hostile.size();
      switch (random() % 4) {
        case 0:
          hostile[at] = static_cast<char>(random());
          break;
        case 1:
          hostile.erase(at, random() % 20);
          break;
        case 2:
          hostile.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
        default:
          hostile[at] = "0123456789-+eE.\"{}[],:"[random() % 22];
          break;
      }
    }
    try {
      const SpdFile spd = parse_spd(hostile, "x.spd");
      ++read;
      EXPECT_EQ(parse_spd(to_json(spd), "x.spd").blocks, spd.blocks);
      EXPECT_GE(spd.tp, 1);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::bad_input) << error.what();
    }
  }
  EXPECT_GT(read, 100);
}

TEST(BlockMode, ASummaryCountsModesMostFrequentFirst) {
  const BlockMode drop{true, BlockWire::f32}, int8{false, BlockWire::int8};
  EXPECT_EQ(summary(std::vector<BlockMode>{int8, drop, drop}), "2 drop, 1 int8");
  EXPECT_EQ(num_dropped(std::vector<BlockMode>{int8, drop, drop}), 2);
}

}  // namespace
}  // namespace weft
