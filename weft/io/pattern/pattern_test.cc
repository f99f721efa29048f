// The regular expressions of tokenizers: what is read, what is refused, and that hand-written scanners are the same.
#include "weft/io/pattern/pattern.h"

#include <chrono>
#include <random>
#include <regex>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/pattern/split.h"

namespace weft {
namespace {

constexpr const char* kGpt2Text = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::size_t match(const char* pattern, std::string_view text) { return Pattern::parse(pattern, "p").match(text, 0); }

TEST(Pattern, MatchesAsItsPartsSay) {
  EXPECT_EQ(match("abc", "abcd"), 3u);
  EXPECT_EQ(match("abc", "abd"), 0u);
  EXPECT_EQ(match("a|ab|abc", "abc"), 1u) << "branches from the left, not the longest";
  EXPECT_EQ(match("(?:a|ab)c", "abc"), 3u) << "and back where what follows fails";
  EXPECT_EQ(match("a*ab", "aaab"), 4u);
  EXPECT_EQ(match("a++ab", "aaab"), 0u) << "possessive: nothing is given back";
  EXPECT_EQ(match("a?+a", "a"), 0u);
  EXPECT_EQ(match("a{2,3}", "aaaa"), 3u);
  EXPECT_EQ(match("a{2}", "a"), 0u);
  EXPECT_EQ(match("a{2,}", "aaaaa"), 5u);
  EXPECT_EQ(match("[^a-c\\]]+", "xyz]"), 3u);
  EXPECT_EQ(match("[]a]+", "]a]b"), 3u);
  EXPECT_EQ(match("[a-]+", "a-b"), 2u);
  EXPECT_EQ(match("\\s+(?!\\S)", "   x"), 2u);
  EXPECT_EQ(match("\\s+(?=x)", "   x"), 3u);
  EXPECT_EQ(match("(?i:'ReS)", "'rE\u017f"), 5u);
  EXPECT_EQ(match("(?>a+)a", "aaa"), 0u);
  EXPECT_EQ(match(".", "\n"), 0u);
  EXPECT_EQ(match("\\x{4e2d}\\u6587\\x41",
                  "\u4e2d\u6587"
                  "A"),
            7u);
  EXPECT_EQ(match("[\u4e00-\u9fa5]+", "\u4e2d\u6587x"), 6u);
  EXPECT_EQ(match("a*", "b"), 0u) << "an empty match is none";
}

TEST(Pattern, PropertiesAreUnicodes) {
  EXPECT_EQ(match("\\p{Lu}+", "A\u00c9\u0416a"), 5u);
  EXPECT_EQ(match("\\p{Ll}+", "a\u00e9A"), 3u);
  EXPECT_EQ(match("\\p{Lt}", "\u01c5"), 2u);
  EXPECT_EQ(match("\\p{M}", "\u0301"), 2u);
  EXPECT_EQ(match("\\p{P}+", "!\"$"), 2u) << "$ is a symbol";
  EXPECT_EQ(match("\\p{S}+", "$+<!"), 3u);
  EXPECT_EQ(match("\\P{L}+", "12a"), 2u);
  EXPECT_EQ(match("\\d+", "1\u0664\u00bd"), 3u);
  EXPECT_EQ(match("\\w+", "a_1\u0301-"), 5u);
}

TEST(Pattern, WhatIsNotReadIsQuoted) {
  const auto said = [](const char* pattern) { return refusal([&] { Pattern::parse(pattern, "p"); }); };
  EXPECT_EQ(said("a+?"),
            "p: the splitting pattern \"a+?\" is not read here: repeats that take as little as possible are not done");
  for (const char* pattern : {"(", ")", "(?<a>b)", "[a", "a{", "a{3,2}", "\\p{Xx}", "\\p", "\\1", "*", "^a", "[[a]]",
                              "\\", "(?i:\u00e9)", "a{5000}", "(?<=a)b", "\\x{110000}", "[z-a]", ""})
    EXPECT_NE(said(pattern), "did not throw") << pattern;
  EXPECT_NE(said(std::string(100, '(').c_str()).find("nested too deep"), std::string::npos);
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kParts = {
      "a",    "Z", "s", "'",      "re",     "LL",     "0",      "12",     " ",          "  ",      "\t",  "\n",
      "\r\n", ".", "-", "\u00e9", "\u0301", "\u4e2d", "\u00a0", "\u00bd", "\U0001f600", "'\u017f", "\xff"};
  std::string text;
  for (auto left = 1 + random() % 16; left > 0; --left) text += kParts[random() % kParts.size()];
  return text;
}

// The slow twin of every scanner in split.cc.
TEST(Pattern, ScannersAreTheirRegularExpressions) {
  for (const auto& [rule, text] : {std::pair(SplitRule::gpt2, kGpt2Text), std::pair(SplitRule::llama3, kLlama3Text),
                                   std::pair(SplitRule::qwen2, kQwen2Text)}) {
    ASSERT_EQ(known_split_rule(text), rule);
    const Pattern pattern = Pattern::parse(text, "p");
    std::mt19937 random(3);
    for (int round = 0; round < 3000; ++round) {
      const std::string whole = random_text(random);
      for (std::size_t at = 0; at < whole.size();) {
        const std::size_t length = first_word(rule, std::string_view(whole).substr(at));
        ASSERT_EQ(pattern.match(whole, at), length) << whole << " at " << at;
        at += length;
      }
    }
  }
}

TEST(Pattern, AgreesWithAnotherEngineOnSmallPatterns) {
  std::mt19937 random(11);
  const auto piece = [&] {
    static const char* const kAtoms[] = {"a", "b", "[ab]", "[^a]", "(?:a|bb)", "(?:ab|a)", "(?!b)a", "."};
    static const char* const kRepeats[] = {"", "", "*", "+", "?", "{1,2}", "{2}"};
    return std::string(kAtoms[random() % 8]) + kRepeats[random() % 7];
  };
  for (int round = 0; round < 3000; ++round) {
    std::string pattern;
    for (auto left = 1 + random() % 4; left > 0; --left) pattern += piece();
    if (random() % 2) pattern += "|" + piece();
    std::string text;
    for (auto left = random() % 10; left > 0; --left) text += "abc"[random() % 3];
    std::smatch found;
    const bool has = std::regex_search(text, found, std::regex(pattern), std::regex_constants::match_continuous);
    ASSERT_EQ(Pattern::parse(pattern, "p").match(text, 0), has ? static_cast<std::size_t>(found.length()) : 0u)
        << pattern << " on " << text;
  }
}

// Exponential for an engine that only goes back and forth: each place is visited once per instruction here.
TEST(Pattern, NestedRepeatsTakeNoExponentialTime) {
  const std::string text(2000, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(match("(?:a*)*b", text), 0u);
  EXPECT_EQ(match("(?:a|a)*b", text), 0u);
  EXPECT_EQ(match("(?:a?){50}b", text), 0u);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20) << "milliseconds here; exponential would be forever";
}

TEST(Pattern, MutantsAreTakenOrRefused) {
  const std::string text = "I've 12 \xff \u4e2d\u6587\n\n x";
  const FuzzCounts counts = fuzz(kLlama3Text, 4000, [&](const std::string& mutant) {
    const Pattern pattern = Pattern::parse(mutant, "p");
    for (std::size_t at = 0; at < text.size(); ++at) ASSERT_LE(at + pattern.match(text, at), text.size());
  });
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 100);
}

}  // namespace
}  // namespace weft
