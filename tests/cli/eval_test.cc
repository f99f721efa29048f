// `weft eval` as its users see it: the figures of models/weft-16/eval.json, the same at any number of ranks, and a
// paired comparison.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/llm/model/model.h"
#include "weft/llm/spd/spd_file.h"

#include "tests/cli/json.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::string kModel = std::string(WEFT_SOURCE) + "/models/weft-16";

class Scratch {
 public:
  Scratch() : path_(std::filesystem::temp_directory_path() / fmt::format("weft_eval_{}", getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string all_dropped(const Scratch& scratch, int tp) {
  SpdFile spd{.model = model_hash(kModel), .tp = tp, .blocks = std::vector<BlockMode>(16, {.drop = true})};
  save_spd(spd, scratch.file("all.spd"));
  return scratch.file("all.spd");
}

// tools/weft16_eval.py computed these with PyTorch: perplexity on the first windows is not in the file, but the whole
// is.
TEST(Eval, HasItsKeysAndTheModelsFigures) {
  const Json found =
      parsed(weft("eval --model " + kModel + " --limit 60 --text " + kModel + "/heldout.txt --window 256 --json"));
  for (const char* key : {"model", "ranks", "spd", "modes", "perplexity", "perplexity_low", "perplexity_high", "window",
                          "windows", "tokens", "accuracy", "tasks", "sync_points", "bytes_sent", "tokens_per_s"})
    EXPECT_TRUE(found.contains(key)) << key;
  EXPECT_EQ(found["windows"], 60);
  EXPECT_EQ(found["tokens"], 60 * 255);
  EXPECT_TRUE(found["accuracy"].is_null());
  const double perplexity = found["perplexity"];
  EXPECT_GT(perplexity, 15);
  EXPECT_LT(perplexity, 35);
  EXPECT_LT(found["perplexity_low"], perplexity);
  EXPECT_GT(found["perplexity_high"], perplexity);
}

TEST(Eval, TheSameNumbersAtAnyNumberOfRanksAndTransport) {
  const std::string words = "eval --model " + kModel + " --limit 6 --window 128 --json";
  const Json one = parsed(weft(words));
  EXPECT_EQ(one["tasks"].size(), 2u);
  for (const char* more : {" --ranks 2", " --ranks 3 --transport threads"}) {
    const Json found = parsed(weft(words + more));
    EXPECT_NEAR(found["perplexity"].get<double>() / one["perplexity"].get<double>(), 1, 1e-5) << more;
    for (std::size_t t = 0; t < 2; ++t) {
      EXPECT_EQ(found["tasks"][t]["name"], one["tasks"][t]["name"]);
      EXPECT_EQ(found["tasks"][t]["right"], one["tasks"][t]["right"]) << more;
    }
  }
}

TEST(Eval, TwoConfigurationsAreComparedInPairs) {
  const Scratch scratch;
  const std::string words = fmt::format("eval --model {} --ranks 2 --limit 8 --window 256", kModel);
  const std::string spd = all_dropped(scratch, 2);
  const Json paired = parsed(weft(fmt::format("{} --spd {} --against none --json", words, spd)));
  EXPECT_EQ(paired["modes"], "16 drop");
  const Json& against = paired["against"];
  EXPECT_GT(against["loss"], 0.05) << "26.4 instead of 19.6 on the whole text";
  EXPECT_GT(against["loss_low"], 0.0);
  EXPECT_LT(against["loss_p"], 0.05);
  EXPECT_NEAR(paired["perplexity"].get<double>() / against["perplexity"].get<double>() - 1,
              against["loss"].get<double>(), 1e-9);
  // The same from a file that was kept.
  EXPECT_EQ(weft(fmt::format("{} --save {}", words, scratch.file("none.json"))).code, 0);
  const Json kept = parsed(weft(fmt::format("{} --spd {} --against {} --json", words, spd, scratch.file("none.json"))));
  EXPECT_EQ(kept["against"]["loss"], against["loss"]);
  EXPECT_EQ(kept["against"]["tasks"], against["tasks"]);
  const Ended text = weft(fmt::format("{} --spd {} --against {}", words, spd, scratch.file("none.json")));
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part :
       {"16 drop", "perplexity", "last_word", "continuation", "mean accuracy", "against", "tokens/s"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " in " << text.out;
}

TEST(Eval, RefusesInASentence) {
  const Scratch scratch;
  const std::string spd = all_dropped(scratch, 4);
  std::ofstream(scratch.file("bad.jsonl")) << "{\"task\": \"last_word\"}\n";
  std::ofstream(scratch.file("short.txt")) << "too short\n";
  const struct {
    std::string words, says;
  } cases[] = {
      {fmt::format("--model {} --ranks 2 --spd {}", kModel, spd), "made for 4 ranks, but there are 2; use --ranks 4"},
      {fmt::format("--model {}/tests/models/llama-gqa --ranks 4 --spd {} --text x", WEFT_SOURCE, spd),
       "made for model"},
      {fmt::format("--model {}/tests/models/llama-gqa", WEFT_SOURCE), "give --text or --tasks"},
      {fmt::format("--model {} --window 4096", kModel), "use 2 to 1024, the model's length"},
      {fmt::format("--model {} --tasks {}", kModel, scratch.file("bad.jsonl")), "line 1: \"target\" is missing"},
      {fmt::format("--model {} --text {}", kModel, scratch.file("short.txt")), "less than one window"},
      {"--model /nonexistent --text x", "/nonexistent"},
      {fmt::format("--model {} --ranks 0", kModel), "--ranks is 0"},
  };
  for (const auto& [words, says] : cases) {
    const Ended ended = weft("eval " + words);
    EXPECT_EQ(ended.code, 2) << words << ": " << ended.err;
    EXPECT_NE(ended.err.find(says), std::string::npos) << words << ": " << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

}  // namespace
}  // namespace weft::testing
