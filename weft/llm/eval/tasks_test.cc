#include "weft/llm/eval/tasks.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

// One token per byte, but "ab" is one token of 300, wherever it stands.
class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer() { pieces_.resize(301); }

 protected:
  void encode_plain(std::string_view text, bool, std::vector<int>& tokens) const override {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool pair = text.substr(i, 2) == "ab";
      tokens.push_back(pair ? 300 : static_cast<unsigned char>(text[i]));
      i += pair;
    }
  }
};

TaskItem item_of(const std::string& text) { return parse_task(parse_json(text, "x"), "x line 1"); }
std::string said(const std::string& text) {
  return refusal([&] { item_of(text); });
}

TEST(Tasks, BothKindsAreRead) {
  const TaskItem last = item_of(R"({"id": 7, "task": "last_word", "context": "a b", "target": " c"})");
  EXPECT_EQ(last.kind, TaskKind::last_word);
  EXPECT_EQ(last.name, "last_word");
  EXPECT_EQ(last.choices, std::vector<std::string>{" c"});
  const TaskItem choice = item_of(
      R"({"task": "continuation", "name": "piqa", "context": "x", "choices": [" a", " b"], "answer": 1, "score": "sum"})");
  EXPECT_EQ(choice.name, "piqa");
  EXPECT_EQ(choice.answer, 1);
  EXPECT_FALSE(choice.per_byte);
}

TEST(Tasks, RefusalsNameLineFieldAndRemedy) {
  EXPECT_EQ(said(R"({"task": "last_word", "context": "a"})"), "x line 1: \"target\" is missing; give a string");
  EXPECT_EQ(said(R"({"task": "cloze"})"), "x line 1: unknown task \"cloze\"; use one of last_word, continuation");
  EXPECT_EQ(said(R"({"task": "continuation", "context": "a", "choices": [" b"], "answer": 1})"),
            "x line 1: \"answer\" is 1; give a whole number from 0 to 0");
  EXPECT_EQ(said(R"({"task": "last_word", "context": "a", "target": ""})"),
            "x line 1: a target or choice is empty; give at least a word");
  EXPECT_NE(said(R"({"task": "continuation", "contexts": ["a"], "choices": [" b", " c"], "answer": 1})")
                .find("1 \"contexts\" for 2 \"choices\""),
            std::string::npos);
}

TEST(Tasks, UnitsShareTheirContext) {
  const ByteTokenizer tokenizer;
  const std::vector<TaskItem> items{
      item_of(R"({"task": "continuation", "context": "xy", "choices": [" p", " qr"], "answer": 0})")};
  const auto units = task_units(items, tokenizer, 100);
  ASSERT_EQ(units.size(), 1u);
  EXPECT_EQ(units[0].context, (std::vector<int>{'x', 'y'}));
  EXPECT_EQ(units[0].choices, (std::vector<std::vector<int>>{{' ', 'p'}, {' ', 'q', 'r'}}));
}

// "xa" + "b" is x, ab: the choice begins where the context alone had ended, two tokens in.
TEST(Tasks, AChoiceThatChangesTheContextStandsAlone) {
  const ByteTokenizer tokenizer;
  const std::vector<TaskItem> items{
      item_of(R"({"task": "continuation", "context": "xa", "choices": [" p", "bcd"], "answer": 0})")};
  const auto units = task_units(items, tokenizer, 100);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].context, (std::vector<int>{'x', 'a'}));
  EXPECT_EQ(units[1].context, (std::vector<int>{'x', 300}));
  EXPECT_EQ(units[1].choices, (std::vector<std::vector<int>>{{'c', 'd'}}));
  EXPECT_EQ(units[1].first_choice, 1u);
}

TEST(Tasks, ATokenizerThatAddsABosHasItBeforeEveryContext) {
  const auto tokenizer = Tokenizer::load(std::string(WEFT_SOURCE) + "/tests/tokenizers/llama2");
  ASSERT_TRUE(tokenizer->adds_bos());
  const std::vector<TaskItem> items{item_of(R"({"task": "last_word", "context": "the cat", "target": " sat"})"),
                                    item_of(R"({"task": "last_word", "context": "", "target": "sat"})")};
  const auto units = task_units(items, *tokenizer, 100);
  EXPECT_EQ(units[0].context[0], *tokenizer->bos());
  EXPECT_GT(units[0].context.size(), 1u);
  EXPECT_EQ(units[1].context, std::vector<int>{*tokenizer->bos()});
  const ByteTokenizer without;
  EXPECT_NE(refusal([&] { task_units(items, without, 100); }).find("has no bos token"), std::string::npos);
}

TEST(Tasks, ALongContextLosesItsBeginning) {
  const ByteTokenizer tokenizer;
  const std::vector<TaskItem> items{item_of(R"({"task": "last_word", "context": "123456789", "target": "xyz"})")};
  const auto units = task_units(items, tokenizer, 7);
  EXPECT_TRUE(units[0].cut);
  EXPECT_EQ(units[0].context, (std::vector<int>{'6', '7', '8', '9'}));
  EXPECT_NE(refusal([&] { task_units(items, tokenizer, 3); }).find("more than the model's length"), std::string::npos);
}

TEST(Tasks, AContinuationIsJudgedPerByteOrAsASum) {
  TaskItem item =
      item_of(R"({"task": "continuation", "context": "x", "choices": [" a", " long choice"], "answer": 1})");
  const std::vector<double> sums{-4, -6};
  EXPECT_TRUE(judge_continuation(item, sums).right);
  EXPECT_NEAR(judge_continuation(item, sums).margin, -6.0 / 12 + 4.0 / 2, 1e-12);
  item.per_byte = false;
  EXPECT_FALSE(judge_continuation(item, sums).right);
  EXPECT_NEAR(judge_continuation(item, sums).margin, -2, 1e-12);
}

TEST(Tasks, LimitsCountByName) {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 5; ++i)
    lines += R"({"task": "last_word", "name": ")" + std::string(i % 2 ? "odd" : "even") +
             R"(", "context": "a", "target": " b"})" + "\n";
  const std::string path = folder.write("t.jsonl", lines);
  EXPECT_EQ(load_tasks(path).size(), 5u);
  EXPECT_EQ(load_tasks(path, 1).size(), 2u);
  EXPECT_NE(refusal([&] { load_tasks(folder.write("e.jsonl", "")); }).find("no items"), std::string::npos);
}

TEST(Tasks, HostileLinesAreReadOrRefused) {
  const std::string line =
      R"({"id": 1, "task": "continuation", "name": "n", "contexts": ["a", "b"], "choices": [" b", " c"], "answer": 1, "score": "byte"})";
  const FuzzCounts counts = fuzz(line, 20'000, [](const std::string& text) { item_of(text); });
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 1000);
}

}  // namespace
}  // namespace weft
