// 6,000 texts per tokenizer that nobody would write: made here from a seed, and by tools/golden_tokens.py from the
// same, which keeps a hash of the ids that the library gives each. The text that fails is printed.
#include <cstdint>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

const std::string kHostileFolder = WEFT_SOURCE "/tests/tokenizers/";

class HostileTexts {
 public:
  HostileTexts() {
    const Json json = load_json(kHostileFolder + "hostile.json");
    state_ = json["seed"].get<std::uint64_t>();
    count = json["texts"].get<int>();
    alphabets_ = json["alphabets"].get<std::vector<std::vector<std::string>>>();
  }

  std::string next() {
    std::string text;
    for (std::size_t parts = 1 + below(24); parts > 0; --parts) {
      const auto& alphabet = alphabets_[below(alphabets_.size())];
      text += alphabet[below(alphabet.size())];
    }
    return text;
  }

  int count = 0;

 private:
  std::size_t below(std::size_t count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % count;
  }

  std::uint64_t state_ = 0;
  std::vector<std::vector<std::string>> alphabets_;
};

std::string hash_of(const std::vector<std::vector<int>>& lists) {
  std::uint32_t value = 0x811C9DC5u;
  const auto add = [&](std::uint32_t number) {
    for (int byte = 0; byte < 4; ++byte) value = (value ^ (number >> 8 * byte & 0xFFu)) * 0x01000193u;
  };
  for (const auto& ids : lists) {
    for (const int id : ids) add(static_cast<std::uint32_t>(id));
    add(0xFFFFFFFFu);
  }
  return fmt::format("{:08x}", value);
}

class HostileTokens : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Every, HostileTokens,
                         ::testing::Values("llama3", "llama3-ignore-merges", "llama2", "llama2-metaspace",
                                           "llama2-added", "gemma", "single-word", "qwen2", "neox", "digits", "tekken",
                                           "o200k", "splits", "unigram", "word-piece", "sp-bpe", "sp-bpe-not-legacy",
                                           "sp-unigram"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

TEST_P(HostileTokens, AreTheLibrarys) {
  const std::string folder = kHostileFolder + GetParam();
  const auto tokenizer = Tokenizer::load(folder);
  const bool special_alone = GetParam() == "sp-bpe-not-legacy";  // what is special is all that is special there
  const bool plain_alone = !special_alone && GetParam().starts_with("sp-");  // their library knows no other way
  std::ifstream golden(folder + "/hostile.txt");
  HostileTexts texts;
  ASSERT_EQ(texts.count, 6000);
  int failed = 0;
  for (int i = 0; i < texts.count; ++i) {
    const std::string text = texts.next();
    std::string wanted;
    ASSERT_TRUE(std::getline(golden, wanted)) << i;
    std::vector<std::vector<int>> ids;
    if (!special_alone) ids.push_back(tokenizer->encode(text));
    if (!plain_alone) ids.push_back(tokenizer->encode_with_special(text));
    if (hash_of(ids) == wanted) continue;
    if (++failed <= 5) ADD_FAILURE() << "text " << i << ": " << Json(text).dump(-1, ' ', true) << "\nids " << Json(ids);
  }
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace weft
