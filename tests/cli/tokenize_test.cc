// `weft tokenize` as its users see it.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::string kTokenizeModel = std::string(WEFT_SOURCE) + "/models/weft-16";

TEST(TokenizeCommand, PrintsIdsAndTexts) {
  const Ended plain =
      weft(std::vector<std::string>{"tokenize", "--model", kTokenizeModel, "--prompt", "The Linux kernel"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(plain.out.find("  \"The\"\n"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("tokens: \"The Linux kernel\"\n"), std::string::npos) << plain.out;
  const Ended made =
      weft(std::vector<std::string>{"tokenize", "--model", kTokenizeModel, "--prompt", "The Linux kernel", "--json"});
  const Json json = Json::parse(made.out);
  EXPECT_EQ(json["text"], "The Linux kernel");
  EXPECT_EQ(json["ids"].size(), json["pieces"].size());
  std::string ids;
  for (const Json& id : json["ids"]) ids += (ids.empty() ? "" : ",") + id.dump();
  const Ended back = weft(fmt::format("tokenize --model {} --prompt-ids {} --json", kTokenizeModel, ids));
  EXPECT_EQ(Json::parse(back.out)["text"], "The Linux kernel");
}

TEST(TokenizeCommand, SpecialTokensAreTokensUnlessPlain) {
  const auto count = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"tokenize", "--model", kTokenizeModel, "--prompt", "<|endoftext|>", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(weft(words).out)["tokens"].get<int>();
  };
  EXPECT_EQ(count({}), 1);
  EXPECT_GT(count({"--plain"}), 3);
}

TEST(TokenizeCommand, TakesWhatFlowsIn) {
  const Ended piped =
      wait_for(start_program({"bash", "-c",
                              fmt::format("printf 'The kernel' | {} tokenize --model {} --prompt-file - --json",
                                          WEFT_BINARY, kTokenizeModel)}));
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(Json::parse(piped.out)["text"], "The kernel");
}

TEST(TokenizeCommand, RefusesInOneSentence) {
  const auto says = [](const std::string& words, const std::string& part) {
    const Ended ended = weft("tokenize " + words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  };
  says("--model " + kTokenizeModel, "give one of --prompt TEXT");
  says("--model " + kTokenizeModel + " --prompt a --prompt-ids 1", "2 are there");
  says("--model " + kTokenizeModel + " --prompt-ids 9999999", "token 9999999 is not in the vocabulary");
  says("--model /nowhere --prompt a", "/nowhere");
}

}  // namespace
}  // namespace weft::testing
