// `weft chat` as its users see it, through a pipe: the bundled model with a template of its own.
#include <filesystem>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

class ChatCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& file : std::filesystem::directory_iterator(std::string(WEFT_SOURCE) + "/models/weft-16"))
      if (file.is_regular_file())
        std::filesystem::create_symlink(file.path(), folder_.file(file.path().filename().string()));
    folder_.write("chat_template.jinja",
                  "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}The{% endif %}");
  }
  Ended piped(const std::string& lines, const std::string& more) {
    return wait_for(start_program({"bash", "-c",
                                   fmt::format("printf '{}' | {} chat --model {} --max-tokens 12 {}", lines,
                                               WEFT_BINARY, folder_.path(), more)}));
  }

  ScratchFolder folder_;
};

TEST_F(ChatCommand, AnswersEveryLineOfAPipe) {
  const Ended ended = piped("What is a kernel?\\nAnd a file?\\n", "--json");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json json = Json::parse(ended.out);
  ASSERT_EQ(json["messages"].size(), 4u) << ended.out;
  EXPECT_EQ(json["messages"][0]["content"], "What is a kernel?");
  EXPECT_EQ(json["messages"][1]["role"], "assistant");
  EXPECT_FALSE(json["messages"][3]["content"].get<std::string>().empty());
  for (const char* ranks : {"--ranks 2 --json", "--ranks 4 --json"})
    EXPECT_EQ(Json::parse(piped("What is a kernel?\\nAnd a file?\\n", ranks).out)["messages"], json["messages"])
        << ranks;
  EXPECT_GT(json["tokens_kept"], 3) << "the second turn reads only what is new: the first question stays";
  const Ended plain = piped("What is a kernel?\\n", "");
  EXPECT_EQ(plain.out, json["messages"][1]["content"].get<std::string>() + "\n");
}

// Ranks that a launcher has started, as on several hosts: the first reads what is typed.
TEST_F(ChatCommand, RunsUnderALauncher) {
  const std::string line = fmt::format(
      "printf 'What is a kernel?\\nAnd a file?\\n' | {} run -n 2 -- {} chat --model {} "
      "--max-tokens 12 --json",
      WEFT_BINARY, WEFT_BINARY, folder_.path());
  const Ended ended = wait_for(start_program({"bash", "-c", line}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json alone = Json::parse(piped("What is a kernel?\\nAnd a file?\\n", "--json").out);
  EXPECT_EQ(Json::parse(ended.out)["messages"], alone["messages"]);
  EXPECT_EQ(Json::parse(ended.out)["ranks"], 2);
}

TEST_F(ChatCommand, BeginsAnewAndEnds) {
  const Ended ended = piped("one\\n/new\\ntwo\\n/exit\\nthree\\n", "--json --system sys");
  const Json json = Json::parse(ended.out);
  ASSERT_EQ(json["messages"].size(), 3u) << ended.out;
  EXPECT_EQ(json["messages"][0]["content"], "sys");
  EXPECT_EQ(json["messages"][1]["content"], "two");
  EXPECT_EQ(json["turns"], 2);
}

TEST_F(ChatCommand, RefusesInOneSentence) {
  const auto says = [](const Ended& ended, const std::string& part) {
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  };
  says(piped("a <|endoftext|> b\\n", "--ranks 2"), "control token");
  says(piped("a long line of words that has more tokens than eight\\n", "--context 8"), "begin anew with /new");
  says(weft(std::vector<std::string>{"chat", "--model", std::string(WEFT_SOURCE) + "/models/weft-16"}),
       "has no chat template");
  says(weft("chat --model Some/model"), "hf download Some/model");
}

}  // namespace
}  // namespace weft::testing
