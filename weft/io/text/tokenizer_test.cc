// Tokenizers against the libraries that define them: golden ids from tools/golden_tokens.py.
#include "weft/io/text/tokenizer.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/json.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

const std::string kTokenizerFolder = WEFT_SOURCE "/tests/tokenizers/";
const std::string kWeft16 = WEFT_SOURCE "/models/weft-16";

struct GoldenCase {
  std::string name, folder, file;
  friend std::ostream& operator<<(std::ostream& out, const GoldenCase& golden) { return out << golden.name; }
};

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases = {{"weft_16", kWeft16, kTokenizerFolder + "weft-16.json"}};
  for (const std::string name :
       {"llama3", "llama3-ignore-merges", "llama2", "llama2-metaspace", "llama2-added", "gemma", "single-word", "qwen2",
        "neox", "digits", "tekken", "o200k", "splits", "unigram", "word-piece", "sp-bpe", "sp-unigram"}) {
    std::string word = name;
    for (char& c : word)
      if (c == '-') c = '_';
    cases.push_back({word, kTokenizerFolder + name, kTokenizerFolder + name + "/golden.json"});
  }
  return cases;
}

class GoldenTokens : public ::testing::TestWithParam<GoldenCase> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(GetParam().folder);
  Json golden_ = load_json(GetParam().file);
};

INSTANTIATE_TEST_SUITE_P(Every, GoldenTokens, ::testing::ValuesIn(golden_cases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(GoldenTokens, EncodesAsTheLibrary) {
  ASSERT_GT(golden_["rows"].size(), 200u);
  for (const Json& row : golden_["rows"])
    EXPECT_EQ(tokenizer_->encode(row["text"].get<std::string>()), row["ids"].get<std::vector<int>>()) << row["text"];
}

TEST_P(GoldenTokens, DecodesAsTheLibrary) {
  for (const Json& row : golden_["rows"])
    EXPECT_EQ(tokenizer_->decode(row["ids"].get<std::vector<int>>()),
              row[row.contains("decoded") ? "decoded" : "text"].get<std::string>())
        << row["ids"];
}

TEST_P(GoldenTokens, StreamsWholeCharactersThatJoinToTheText) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> ids(random() % 30);  // any ids: bytes that make no characters, too
    for (int& id : ids) id = static_cast<int>(random() % static_cast<unsigned>(tokenizer_->vocab_size()));
    TextStream stream(*tokenizer_);
    std::string joined;
    for (const int id : ids) {
      const std::string part = stream.add(id);
      EXPECT_NO_THROW(Json(part).dump()) << "UTF-8 in every part";
      joined += part;
    }
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer_->decode(ids));
    EXPECT_NO_THROW(Json(joined).dump());
  }
}

// A text that goes on with another keeps the space between them.
TEST_P(GoldenTokens, AStreamBehindTokensAddsWhatTheyLack) {
  int looked_at = 0;
  for (const Json& row : golden_["rows"]) {
    const auto ids = row["ids"].get<std::vector<int>>();
    const std::string whole = tokenizer_->decode(ids);
    for (std::size_t split = 1; split < std::min<std::size_t>(ids.size(), 4); ++split) {
      const std::span<const int> before = std::span(ids).first(split);
      const std::string head = tokenizer_->decode(before);
      if (head.ends_with("\xEF\xBF\xBD")) continue;  // it ends within a character
      TextStream stream(*tokenizer_, before);
      std::string tail;
      for (const int id : std::span(ids).subspan(split)) tail += stream.add(id);
      EXPECT_EQ(head + tail + stream.finish(), whole) << split;
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 100);
}

TEST_P(GoldenTokens, AStreamPassesOverTokensBeyondTheVocabulary) {
  TextStream stream(*tokenizer_);
  EXPECT_EQ(stream.add(tokenizer_->vocab_size()), "");
  EXPECT_EQ(stream.add(tokenizer_->vocab_size() + 1000), "");
  EXPECT_EQ(stream.finish(), "");
}

// Splitting rules and merges look at a megabyte without a space a bounded number of times.
TEST_P(GoldenTokens, LongWordsTakeNoSquareTime) {
  std::mt19937 random(5);
  for (const std::string alphabet : {"a", "etaoinshrdlu", " ", "\n ", "=", "7"}) {
    std::string text(300000, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int> ids = tokenizer_->encode(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20) << alphabet;  // 0.1 s here; 300,000 squared would be minutes
    EXPECT_LE(ids.size(), text.size() + 2);
  }
}

TEST_P(GoldenTokens, IdsOutsideTheVocabularyAreRefused) {
  const int size = tokenizer_->vocab_size();
  const std::string range = fmt::format("is not in the vocabulary; give ids from 0 to {}", size - 1);
  EXPECT_EQ(refusal([&] { tokenizer_->decode(std::vector<int>{size}); }), fmt::format("token {} {}", size, range));
  EXPECT_EQ(refusal([&] { tokenizer_->decode(std::vector<int>{-1}); }), "token -1 " + range);
}

TEST(ByteLevel, EveryStringOfBytesComesBack) {
  const auto tokenizer = Tokenizer::load(kTokenizerFolder + "llama3");
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    std::string text(random() % 40, ' ');
    for (char& c : text) c = static_cast<char>(random() % 3 ? random() % 256 : 'e');
    std::string joined;
    for (const int id : tokenizer->encode(text)) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, tokenizer->vocab_size());
      joined += tokenizer->piece_bytes(id);
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Tokenizer, MalformedBytesDecodeAsReplacementCharacters) {
  const auto bytes = Tokenizer::load(kWeft16);
  EXPECT_EQ(bytes->decode(bytes->encode("a\xff z")), "a\xEF\xBF\xBD z");
  EXPECT_EQ(bytes->decode(bytes->encode("\xE2\x82")), "\xEF\xBF\xBD") << "one character was begun";
  EXPECT_EQ(bytes->decode(bytes->encode("\xE2\x82z")), "\xEF\xBF\xBDz");
  EXPECT_EQ(bytes->decode(bytes->encode("\xED\xA0\x80")), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
  for (const char* name : {"sp-bpe", "llama2"}) {
    const auto pieces = Tokenizer::load(kTokenizerFolder + name);
    EXPECT_EQ(pieces->encode("a\xff\xfez"), pieces->encode("a\xEF\xBF\xBD\xEF\xBF\xBDz")) << name;
  }
}

TEST(Tokenizer, ConfigsSayWhatBeginsAndEndsATextAndWhetherToAddIt) {
  const auto weft = Tokenizer::load(kWeft16);
  EXPECT_EQ(weft->bos(), 0);
  EXPECT_EQ(weft->eos(), 0);
  EXPECT_FALSE(weft->adds_bos());
  EXPECT_EQ(weft->vocab_size(), 8192);
  const auto llama3 = Tokenizer::load(kTokenizerFolder + "llama3");
  EXPECT_EQ(llama3->bos(), llama3->find_token("<|begin_of_text|>"));
  EXPECT_TRUE(llama3->adds_bos()) << "its template says so";
  const auto llama2 = Tokenizer::load(kTokenizerFolder + "llama2");
  EXPECT_EQ(llama2->bos(), 1);
  EXPECT_EQ(llama2->eos(), 2);
  EXPECT_TRUE(llama2->adds_bos());
  EXPECT_FALSE(Tokenizer::load(kTokenizerFolder + "llama2-metaspace")->adds_bos());
  const auto pieces = Tokenizer::load(kTokenizerFolder + "sp-bpe");
  EXPECT_EQ(pieces->bos(), 1);
  EXPECT_EQ(pieces->eos(), 2);
  EXPECT_TRUE(pieces->adds_bos()) << "as Llama's tokenizer.model does where nothing is said";
  EXPECT_TRUE(pieces->is_special(1));
  EXPECT_FALSE(pieces->is_special(300));
}

TEST(Tokenizer, SpecialTokensAreTextUnlessAskedFor) {
  const auto tokenizer = Tokenizer::load(kWeft16);
  const std::vector<int> marked = tokenizer->encode_with_special("<|endoftext|>In this chapter");
  std::vector<int> wanted = {0};
  for (const int id : tokenizer->encode("In this chapter")) wanted.push_back(id);
  EXPECT_EQ(marked, wanted);
  EXPECT_NE(tokenizer->encode("<|endoftext|>In this chapter"), wanted);
  EXPECT_EQ(tokenizer->decode(marked), "<|endoftext|>In this chapter");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("<|endoftext|>")), "<|endoftext|>");
}

// The ids of the golden logits, which transformers made from these prompts.
TEST(Tokenizer, PromptsOfTheGoldenLogitsHaveTheirIds) {
  const auto tokenizer = Tokenizer::load(kWeft16);
  const Json golden = load_json(kWeft16 + "/golden/golden.json");
  const std::string prompts[] = {"The Linux kernel is",
                                 "To install the package, run the following command as root and then restart the",
                                 "<|endoftext|>In this chapter we describe how the memory of a process is laid out, "
                                 "and why a page that has not been written to"};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(tokenizer->encode_with_special(prompts[i]), golden["prompts"][i]["ids"].get<std::vector<int>>());
}

// Without this the test of the folder "llama3-ignore-merges" would pass with merges that are not ignored.
TEST(Tokenizer, IgnoringMergesMakesADifferenceInItsGoldenIds) {
  const Json with = load_json(kTokenizerFolder + "llama3/golden.json")["rows"],
             without = load_json(kTokenizerFolder + "llama3-ignore-merges/golden.json")["rows"];
  int differing = 0;
  for (std::size_t i = 0; i < with.size(); ++i) differing += with[i]["ids"] != without[i]["ids"];
  EXPECT_GT(differing, 0);
}

}  // namespace
}  // namespace weft
