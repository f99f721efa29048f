// Vocabularies, merges and added tokens as JSON has them; and a charsmap small enough to be written by hand.
#include "weft/io/text/vocabulary.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/pattern/split.h"
#include "weft/io/sentencepiece/charsmap.h"

namespace weft {
namespace {

TEST(Vocabulary, FindsTextsAndIds) {
  const Vocabulary found = read_vocabulary(Json{{"a", 0}, {"b", 5}}, "v");
  EXPECT_EQ(found.find("b"), 5);
  EXPECT_EQ(found.find("c"), std::nullopt);
  EXPECT_EQ(found.texts.size(), 6u);
  EXPECT_EQ(found.texts[3], "") << "a hole";
}

TEST(Vocabulary, HolesAreBounded) {
  EXPECT_EQ(largest_id(0), 65536);
  EXPECT_EQ(largest_id(std::size_t{1} << 40), 1 << 24) << "a file cannot ask for all of memory";
  EXPECT_NE(refusal([] { read_vocabulary(Json{{"a", 65541}}, "v"); }).find("from 0 to 65540"), std::string::npos);
  EXPECT_NE(refusal([] { read_vocabulary(Json{{"a", -1}}, "v"); }), "did not throw");
  EXPECT_NE(refusal([] { read_vocabulary(Json::object(), "v"); }).find("no object with tokens"), std::string::npos);
  EXPECT_NE(refusal([] { read_vocabulary(Json::array({1}), "v"); }).find("no object with tokens"), std::string::npos);
}

TEST(Vocabulary, MergesComeInBothSpellings) {
  const Vocabulary vocabulary = read_vocabulary(Json{{"a", 0}, {"b", 1}, {"ab", 2}, {"aba", 3}}, "v");
  const Merges strings = read_merges(Json::array({"a b", "ab a"}), vocabulary, "v");
  const Merges pairs = read_merges(Json::array({{"a", "b"}, {"ab", "a"}}), vocabulary, "v");
  for (const Merges* merges : {&strings, &pairs}) {
    std::vector<int> tokens{0, 1, 0, 1};
    merges->apply(tokens);
    EXPECT_EQ(tokens, (std::vector<int>{2, 2})) << "the first of the list goes first";
    tokens = {0, 1, 0, 0};
    merges->apply(tokens);
    EXPECT_EQ(tokens, (std::vector<int>{3, 0}));
  }
  for (const Json& wrong : {Json("ab"), Json(7), Json::array({"a"}), Json::array({"a", 1}), Json()})
    EXPECT_NE(refusal([&] { read_merges(Json::array({wrong}), vocabulary, "v"); }).find("item 0 of \"merges\""),
              std::string::npos)
        << wrong;
}

TEST(Vocabulary, AddedTokensHaveTheirFlags) {
  const AddedToken plain = read_added_token(Json{{"content", "<x>"}}, 9, "v");
  EXPECT_EQ(plain.id, 9);
  EXPECT_FALSE(plain.special || plain.strip_left || plain.strip_right);
  const AddedToken all =
      read_added_token(Json{{"content", "<x>"}, {"special", true}, {"lstrip", true}, {"rstrip", true}}, 9, "v");
  EXPECT_TRUE(all.special && all.strip_left && all.strip_right);
  EXPECT_NE(refusal([] {
              read_added_token(Json{{"content", "x"}, {"special", 1}}, 9, "v");
            }).find("special"),
            std::string::npos);
  EXPECT_NE(refusal([] { read_added_token(Json{{"special", true}}, 9, "v"); }).find("content"), std::string::npos);
}

// A double array of the one key "a", whose value is a place in the texts.
std::string charsmap_of_a(std::uint32_t value, const std::string& texts) {
  std::vector<std::uint32_t> units(512, 0);
  constexpr std::uint32_t kChildren = 256, kLeaf = 10;
  units[0] = kChildren << 10;
  units[kChildren ^ 'a'] = 'a' | 1u << 8 | (kChildren ^ 'a' ^ kLeaf) << 10;
  units[kLeaf] = value | 0x80000000u;
  std::string blob;
  const auto add = [&](std::uint32_t unit) {
    for (int byte = 0; byte < 4; ++byte) blob += static_cast<char>(unit >> 8 * byte);
  };
  add(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) add(unit);
  return blob + texts;
}

TEST(Charsmap, ReplacesTheLongestBeginning) {
  const Charsmap map(charsmap_of_a(3, std::string("no\0yes\0", 7)), "c");
  EXPECT_EQ(map.match("abc").length, 1u);
  EXPECT_EQ(map.match("abc").replacement, "yes");
  EXPECT_EQ(map.match("b").length, 0u);
  EXPECT_EQ(map.match("").length, 0u);
  EXPECT_EQ(Charsmap().match("a").length, 0u);
}

TEST(Charsmap, PlacesOutsideTheTextsReplaceNothing) {
  EXPECT_EQ(Charsmap(charsmap_of_a(7, "texts"), "c").match("a").length, 0u);
  EXPECT_EQ(Charsmap(charsmap_of_a(0x7FFFFFFF, "texts"), "c").match("a").length, 0u);
  EXPECT_EQ(Charsmap(charsmap_of_a(2, "texts"), "c").match("a").replacement, "xts") << "without a NUL: to the end";
  EXPECT_NE(refusal([] { Charsmap(std::string("\x09\0\0\0", 4), "c"); }).find("the file is damaged"),
            std::string::npos);
}

TEST(Split, AnUnknownPatternHasNoScanner) {
  EXPECT_EQ(known_split_rule("(a+)+b"), std::nullopt);
  EXPECT_EQ(known_split_rule(""), std::nullopt);
}

}  // namespace
}  // namespace weft
