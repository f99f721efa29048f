// A folder, a text and tasks on several numbers of ranks; and the file of scores, which comes back as it was or is
// refused.
#include "weft/llm/eval/evaluate.h"

#include <fstream>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/model/small_folder_test.h"
#include "weft/world/world.h"

namespace weft {
namespace {

class Evaluated : public ::testing::Test {
 protected:
  Evaluated() {
    folder_.write("text.txt", SmallFolder::letters(16 * 5 + 3, 1));
    folder_.write("tasks.jsonl",
                  R"({"task": "last_word", "context": "abcab", "target": "c"})"
                  "\n"
                  R"({"task": "continuation", "context": "hgf", "choices": ["ed", "aa", "pop"], "answer": 0})"
                  "\n");
  }

  EvalInputs read(std::int64_t limit = 0) const {
    return read_eval_inputs(
        {.text = folder_.file("text.txt"), .tasks = folder_.file("tasks.jsonl"), .window = 16, .limit = limit},
        *Tokenizer::load(folder_.path()), load_config(folder_.path()));
  }

  Evaluation on_ranks(int ranks, const EvalInputs& inputs, const Modes& modes = {}) const {
    Evaluation out;
    World::local(ranks, [&](World& world) {
      Evaluation found = evaluate(world, open_model(folder_.path()), modes, inputs);
      if (world.rank() == 0) out = std::move(found);
    });
    return out;
  }

  SmallFolder folder_;
};

TEST_F(Evaluated, InputsAreTheWholeWindowsOfTheText) {
  const EvalInputs all = read(), two = read(2);
  EXPECT_EQ(all.text_bytes, 83);
  EXPECT_EQ(all.stream.size(), 83u);
  EXPECT_EQ(all.windows.size(), 5u);
  EXPECT_EQ(two.windows.size(), 2u);
  EXPECT_EQ(all.items.size(), 2u);
  EXPECT_EQ(all.text_sha256, two.text_sha256) << "a limit does not make it another text";
}

TEST_F(Evaluated, RanksAgree) {
  const EvalInputs inputs = read();
  const Evaluation one = on_ranks(1, inputs), two = on_ranks(2, inputs);
  EXPECT_EQ(one.scored_tokens(), 5 * 15);
  ASSERT_EQ(one.windows.size(), two.windows.size());
  for (std::size_t w = 0; w < one.windows.size(); ++w)
    EXPECT_NEAR(one.windows[w].log_probability, two.windows[w].log_probability, 1e-3);
  ASSERT_EQ(one.items.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(one.items[i].margin, two.items[i].margin, 1e-3);
  EXPECT_EQ(one.traffic.block_bytes, 0);
  EXPECT_GT(two.traffic.block_bytes, 0);
  EXPECT_GT(two.tokens_per_s(), 0);
  EXPECT_NEAR(bits_per_byte(one, inputs), std::log2(perplexity(one.windows)), 1e-9) << "a token is a letter here";
}

TEST_F(Evaluated, ModesAreThoseOfTheBlocks) {
  const EvalInputs inputs = read();
  const std::int64_t blocks = load_config(folder_.path()).blocks;
  const Evaluation sync = on_ranks(2, inputs), drop = on_ranks(2, inputs, all_blocks(blocks, {.drop = true}));
  EXPECT_EQ(sync.traffic.syncs_dropped, 0);
  EXPECT_EQ(drop.traffic.syncs_made, drop.traffic.syncs_dropped);
  EXPECT_NE(perplexity(sync.windows), perplexity(drop.windows));
}

TEST_F(Evaluated, ASavedFileComesBack) {
  const EvalInputs inputs = read();
  const Evaluation found = on_ranks(1, inputs);
  const std::string path = folder_.file("found.json");
  save_evaluation(path, {.model = "m", .ranks = 1}, inputs, found);
  const Evaluation back = load_evaluation(path, inputs);
  ASSERT_EQ(back.windows.size(), found.windows.size());
  for (std::size_t w = 0; w < back.windows.size(); ++w) {
    EXPECT_EQ(back.windows[w].log_probability, found.windows[w].log_probability) << "to the bit";
    EXPECT_EQ(back.windows[w].tokens, found.windows[w].tokens);
  }
  for (std::size_t i = 0; i < back.items.size(); ++i) EXPECT_EQ(back.items[i].right, found.items[i].right);
}

TEST_F(Evaluated, AFileOfAnotherRunIsRefused) {
  const EvalInputs inputs = read();
  const std::string path = folder_.file("found.json");
  save_evaluation(path, {}, inputs, on_ranks(1, inputs));
  EXPECT_NE(refusal([&] { load_evaluation(path, read(2)); }).find("use the same --limit and --window"),
            std::string::npos);
  folder_.write("text.txt", SmallFolder::letters(83, 2));
  EXPECT_NE(refusal([&] { load_evaluation(path, read()); }).find("made with another text"), std::string::npos);
}

TEST_F(Evaluated, MutantsOfASavedFileAreTakenOrRefused) {
  const EvalInputs inputs = read();
  const std::string path = folder_.file("found.json");
  save_evaluation(path, {}, inputs, on_ranks(1, inputs));
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const FuzzCounts counts = fuzz(text, 800, [&](const std::string& mutant) {
    folder_.write("mutant.json", mutant);
    load_evaluation(folder_.file("mutant.json"), inputs);
  });
  EXPECT_GT(counts.refused, 300);
}

}  // namespace
}  // namespace weft
