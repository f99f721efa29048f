// Text: the same at every number of ranks, ended where it should, sampled as asked.
#include "weft/llm/engine/generate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kWeft16Folder = golden_folders()[0];

std::vector<std::vector<int>> prompts_of(const std::string& folder) {
  std::vector<std::vector<int>> out;
  for (const GoldenPrompt& prompt : golden_prompts(folder)) out.push_back(prompt.ids);
  return out;
}

GenerateResult run(int ranks, const std::string& folder, const std::vector<std::vector<int>>& prompts,
                   const GenerateOptions& options, std::int64_t rows = 64, int threads = 1) {
  GenerateResult out;
  const auto tokenizer = folder == kWeft16Folder ? Tokenizer::load(folder) : nullptr;
  std::mutex mutex;
  World::local(ranks,
               [&](World& world) {
                 const Model model = Model::load(folder, world.rank(), world.size());
                 Engine engine(world, model, {.sequences = int_size(prompts), .rows = rows});
                 GenerateOptions mine = options;
                 if (world.rank() != 0) mine.on_text = nullptr;
                 GenerateResult result = generate(engine, tokenizer.get(), prompts, mine);
                 const std::lock_guard lock(mutex);
                 for (std::size_t i = 0; i < out.texts.size(); ++i)
                   EXPECT_EQ(out.texts[i].tokens, result.texts[i].tokens);
                 out = std::move(result);
               },
               {.threads = threads});
  return out;
}

// How far the two largest logits behind a text are apart, relative to the largest.
double top_two(const std::string& folder, const std::vector<int>& tokens) {
  double gap = 0;
  World::local(1, [&](World& world) {
    const Model model = Model::load(folder);
    Engine engine(world, model, {.rows = 1024});
    const Feed feed{0, tokens};
    engine.forward({&feed, 1});
    const int row = static_cast<int>(engine.rows()) - 1;
    auto logits = engine.logits({&row, 1});
    std::partial_sort(logits.begin(), logits.begin() + 2, logits.end(), std::greater<>());
    gap = (logits[0] - logits[1]) / std::abs(logits[0]);
  });
  return gap;
}

// The same tokens, or a first difference where the two largest logits are within 1e-4.
void expect_same(const std::string& folder, const std::vector<int>& prompt, const std::vector<int>& a,
                 const std::vector<int>& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  if (a == b) return;
  std::vector<int> before = prompt;
  before.insert(before.end(), a.begin(), at);
  const double gap = top_two(folder, before);
  std::printf("%s: texts differ behind %zu tokens, where the two largest logits are %.1e apart\n", folder.c_str(),
              before.size(), gap);
  EXPECT_LT(gap, 1e-4);
}

TEST(Generate, GreedyTextDoesNotDependOnRanksOrThreads) {
  for (const std::string& folder : golden_folders()) {
    const auto prompts = prompts_of(folder);
    const GenerateOptions options{.max_tokens = 24};
    const auto one = run(1, folder, prompts, options);
    for (const int ranks : {2, 3, 4, 6, 8}) {
      const auto many = run(ranks, folder, prompts, options, ranks == 3 ? 5 : 64, ranks == 2 ? 2 : 1);
      for (std::size_t i = 0; i < prompts.size(); ++i)
        expect_same(folder, prompts[i], one.texts[i].tokens, many.texts[i].tokens);
    }
  }
}

TEST(Generate, ABatchIsEachOfItsPrompts) {
  const auto prompts = prompts_of(kWeft16Folder);
  const auto batch = run(2, kWeft16Folder, prompts, {.max_tokens = 16});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = run(2, kWeft16Folder, {prompts[i]}, {.max_tokens = 16});
    expect_same(kWeft16Folder, prompts[i], alone.texts[0].tokens, batch.texts[i].tokens);
  }
}

TEST(Generate, SampledTextIsAFunctionOfTheSeed) {
  const std::vector<std::vector<int>> prompts{golden_prompts(kWeft16Folder)[0].ids};
  const auto with_seed = [&](std::uint64_t seed, int ranks) {
    return run(ranks, kWeft16Folder, prompts,
               {.max_tokens = 20, .sampler = {.temperature = 0.8, .top_k = 50, .top_p = 0.95, .seed = seed}})
        .texts[0]
        .tokens;
  };
  EXPECT_EQ(with_seed(1, 1), with_seed(1, 3));
  EXPECT_NE(with_seed(1, 1), with_seed(2, 1));
}

// Tokens of one model read by another's tokenizer, which begins words with a space and a text without.
TEST(Generate, ATextThatGoesOnKeepsItsFirstSpace) {
  const auto tokenizer = Tokenizer::load(WEFT_SOURCE "/tests/tokenizers/llama2");
  int differ = 0;
  World::local(1, [&](World& world) {
    const Model model = Model::load(kWeft16Folder);
    Engine engine(world, model, {});
    for (int first = 260; first < 300; ++first) {
      const std::vector<int> prompt{first};
      const GenerateResult own = generate(engine, tokenizer.get(), {&prompt, 1}, {.max_tokens = 16});
      const GenerateResult behind =
          generate(engine, tokenizer.get(), {&prompt, 1}, {.max_tokens = 16, .goes_on = true});
      ASSERT_EQ(own.texts[0].tokens, behind.texts[0].tokens);
      TextStream stream(*tokenizer, prompt);
      std::string want;
      for (const int token : own.texts[0].tokens) want += stream.add(token);
      EXPECT_EQ(behind.texts[0].text, want + stream.finish());
      differ += behind.texts[0].text == " " + own.texts[0].text;
    }
  });
  EXPECT_GT(differ, 0);
}

TEST(Generate, EndsAtStopsEosAndLength) {
  const std::vector<std::vector<int>> prompts{golden_prompts(kWeft16Folder)[0].ids};
  const auto whole = run(1, kWeft16Folder, prompts, {.max_tokens = 30});
  const std::string text = whole.texts[0].text;
  ASSERT_GT(text.size(), 40u);
  EXPECT_EQ(whole.texts[0].ending, Ending::length);
  EXPECT_EQ(whole.texts[0].tokens.size(), 30u);
  const std::string stop = text.substr(17, 9);  // begins and ends inside tokens
  std::string streamed;
  const auto cut = run(2, kWeft16Folder, prompts,
                       {.max_tokens = 30, .stops = {"nowhere", stop}, .on_text = [&](int, std::string_view piece) {
                          streamed += piece;
                        }});
  EXPECT_EQ(cut.texts[0].text, text.substr(0, text.find(stop)));
  EXPECT_EQ(cut.texts[0].text, streamed);
  EXPECT_EQ(cut.texts[0].ending, Ending::stop);
  const int fifth = whole.texts[0].tokens[4];
  const auto ended = run(1, kWeft16Folder, prompts, {.max_tokens = 30, .eos = {fifth}});
  EXPECT_EQ(ended.texts[0].ending, Ending::eos);
  EXPECT_LE(ended.texts[0].tokens.size(), 4u);
}

TEST(Generate, StopsAtTheModelsLongestSequence) {
  const std::string opt = golden_folders()[4];
  const auto result = run(2, opt, {golden_prompts(opt)[2].ids}, {.max_tokens = 500});
  EXPECT_EQ(result.texts[0].tokens.size(), 96u - 40u + 1u);  // the last token needs no room
}

TEST(Generate, WhatCannotBeAskedForIsRefused) {
  const std::string gqa = golden_folders()[1];
  const std::vector<std::vector<int>> one{{1, 2}};
  EXPECT_EQ(refusal([&] { run(1, gqa, one, {.max_tokens = 0}); }), "0 tokens are asked for; use 1 or more");
  EXPECT_EQ(refusal([&] { run(1, gqa, {{1}, {}}, {}); }), "prompt 1 has no token; give at least one");
  EXPECT_EQ(refusal([&] { run(1, gqa, one, {.stops = {"."}}); }),
            "a stop string needs a tokenizer, and there is none; leave it out");
  EXPECT_NE(refusal([&] { run(1, gqa, one, {.sampler = {.top_p = 2}}); }).find("top-p is 2"), std::string::npos);
  EXPECT_NE(refusal([&] { run(1, gqa, {{1 << 20}}, {}); }), "did not throw") << "a token that the model has not";
}

TEST(Generate, LogitsOfEveryPromptPositionAreKept) {
  const std::string gqa = golden_folders()[1];
  const std::vector<std::vector<int>> prompts{{1, 2, 3}, {4, 5}};
  const auto whole = run(1, gqa, prompts, {.max_tokens = 1, .prompt_logits = true});
  const auto vocab = num(load_config(gqa).vocab);
  ASSERT_EQ(whole.prompt_logits.size(), 5 * vocab);
  EXPECT_TRUE(run(1, gqa, prompts, {.max_tokens = 1}).prompt_logits.empty()) << "only where asked for";
  const auto cut = run(1, gqa, prompts, {.max_tokens = 1, .prompt_logits = true}, 2);
  ASSERT_EQ(cut.prompt_logits.size(), whole.prompt_logits.size());
  EXPECT_GT(cut.prefill_passes, whole.prefill_passes);
  for (std::size_t i = 0; i < cut.prompt_logits.size(); ++i)
    EXPECT_NEAR(cut.prompt_logits[i], whole.prompt_logits[i], 1e-3);
  for (std::size_t prompt = 0, end = 0; prompt < 2; ++prompt) {
    end += prompts[prompt].size();
    const auto row = whole.prompt_logits.begin() + ((end - 1) * vocab);
    const auto largest = std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab));
    EXPECT_EQ(whole.texts[prompt].tokens[0], largest - row) << "the last position's make the first token";
  }
}

TEST(Generate, PassesAreCounted) {
  const std::string gqa = golden_folders()[1];
  const auto result = run(1, gqa, {{1, 2, 3}}, {.max_tokens = 5});
  EXPECT_EQ(result.prefill_passes, 1);
  EXPECT_EQ(result.decode_passes, 4) << "the prefill makes the first token";
  EXPECT_GT(result.first_token_s, 0);
  EXPECT_GT(result.seconds_per_token(), 0);
  EXPECT_EQ(run(1, gqa, {{1}}, {.max_tokens = 1}).seconds_per_token(), 0) << "nothing was decoded";
}

TEST(StopFilter, HoldsBackWhatMayBecomeAStop) {
  StopFilter filter({"</s>", "\n\n"});
  EXPECT_EQ(filter.add("a<"), "a");
  EXPECT_EQ(filter.add("b</"), "<b");
  EXPECT_EQ(filter.add("s"), "");
  EXPECT_EQ(filter.add("x\n"), "</sx");
  EXPECT_EQ(filter.add("y"), "\ny");
  EXPECT_EQ(filter.add("\n"), "");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.add("\nz"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.add("more"), "");
  StopFilter unfinished({"stop"});
  EXPECT_EQ(unfinished.add("a sto"), "a ");
  EXPECT_EQ(unfinished.finish(), "sto");
}

TEST(Sampler, DrawsByProbability) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.25f), std::log(0.125f), std::log(0.125f)};
  const auto drawn = [&](const SamplerOptions& options) {
    Sampler sampler(options);
    std::map<int, int> counts;
    for (int step = 0; step < 8000; ++step) ++counts[sampler.pick(logits, 0, step)];
    return counts;
  };
  auto all = drawn({.temperature = 1});
  EXPECT_NEAR(all[0], 4000, 200);
  EXPECT_NEAR(all[1], 2000, 160);
  EXPECT_NEAR(all[3], 1000, 130);
  auto two = drawn({.temperature = 1, .top_k = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two[0], 5333, 200);
  auto some = drawn({.temperature = 1, .top_p = 0.8});
  EXPECT_EQ(some.size(), 3u);  // 0.5 + 0.25 is less; of the two last, the smaller token
  EXPECT_EQ(some.count(3), 0u);
  auto cold = drawn({.temperature = 0.5});  // squares: 0.727, 0.182, 0.045, 0.045
  EXPECT_NEAR(cold[0], 5818, 200);
  EXPECT_EQ(Sampler({}).pick(logits, 0, 0), 0);
}

TEST(Sampler, RefusesWhatIsOutOfRange) {
  EXPECT_NE(refusal([] { Sampler({.temperature = -1}); }).find("temperature is -1"), std::string::npos);
  EXPECT_NE(refusal([] { Sampler({.top_k = -1}); }).find("top-k is -1"), std::string::npos);
  EXPECT_NE(refusal([] { Sampler({.top_p = 0}); }).find("top-p is 0"), std::string::npos);
}

}  // namespace
}  // namespace weft
