// Prompts from everywhere a user may have them, and what is refused of them.
#include "weft/llm/engine/prompts.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/model/small_folder_test.h"

namespace weft {
namespace {

class PromptsOfAFolder : public ::testing::Test {
 protected:
  PromptsOfAFolder()
      : config_(load_config(folder_.path())),
        tokenizer_(Tokenizer::load(folder_.path())),
        prompts_(config_, tokenizer_.get()) {}

  SmallFolder folder_;
  ModelConfig config_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  Prompts prompts_;
};

TEST_F(PromptsOfAFolder, ComeFromTextsIdsAndFiles) {
  folder_.write("prompt.txt", "cd");
  folder_.write("prompts.jsonl", "{\"prompt\": \"ef\"}\n{\"prompt\": \"g\"}\n");
  prompts_.add_text("ab", "--prompt");
  prompts_.add_ids("1, 15,0", "--prompt-ids");
  prompts_.add_file(folder_.file("prompt.txt"));
  prompts_.add_lines(folder_.file("prompts.jsonl"));
  EXPECT_EQ(prompts_.tokens(), (std::vector<std::vector<int>>{{0, 1}, {1, 15, 0}, {2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(prompts_.texts(), (std::vector<std::string>{"ab", "", "cd", "ef", "g"}));
  EXPECT_EQ(prompts_.num_tokens(), 10);
}

TEST_F(PromptsOfAFolder, AnEngineHasRoomForTheLongest) {
  prompts_.add_text("abcdef", "--prompt");
  prompts_.add_text("a", "--prompt");
  const EngineOptions options = prompts_.engine_options(10, 512);
  EXPECT_EQ(options.sequences, 2);
  EXPECT_EQ(options.capacity, 16);
  EXPECT_EQ(options.rows, 7) << "no more than there are";
  EXPECT_EQ(prompts_.engine_options(1 << 20, 512).capacity, config_.max_positions);
  EXPECT_EQ(prompts_.engine_options(10, 4).rows, 4);
  EXPECT_EQ(prompts_.engine_options(10, 1).rows, 2) << "one for every prompt, at least";
}

TEST_F(PromptsOfAFolder, WhatTheModelCannotTakeIsRefusedWithItsPlace) {
  const std::string last = std::to_string(config_.vocab - 1);
  for (const std::string& ids :
       std::vector<std::string>{"", "x", "1,", "-1", "1.5", "99999999999", std::to_string(config_.vocab)})
    EXPECT_NE(refusal([&] { prompts_.add_ids(ids, "--prompt-ids"); }).find("use whole numbers from 0 to " + last),
              std::string::npos)
        << ids;
  EXPECT_EQ(refusal([&] { prompts_.add_text("", "here"); }), "here: the prompt has no token; give at least one");
  const std::string most = SmallFolder::letters(static_cast<int>(config_.max_positions), 1);
  EXPECT_NE(refusal([&] { prompts_.add_text(most, "here"); }).find("leave room for one more"), std::string::npos);
  prompts_.add_text(most.substr(1), "here");
  folder_.write("bad.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n");
  EXPECT_NE(refusal([&] { prompts_.add_lines(folder_.file("bad.jsonl")); }).find("line 2"), std::string::npos);
}

TEST_F(PromptsOfAFolder, WithoutATokenizerIdsAlone) {
  Prompts ids(config_, nullptr);
  ids.add_ids("3", "--prompt-ids");
  EXPECT_NE(refusal([&] { ids.add_text("a", "--prompt"); }).find("use --prompt-ids"), std::string::npos);
}

TEST_F(PromptsOfAFolder, ThereIsALargestNumber) {
  for (std::size_t i = 0; i < kMostPrompts; ++i) prompts_.add_ids("1", "--prompt-ids");
  EXPECT_NE(refusal([&] { prompts_.add_ids("1", "--prompt-ids"); }).find("give fewer at once"), std::string::npos);
}

}  // namespace
}  // namespace weft
