// Stages before a model: canonical forms, and how words are cut.
#include "weft/io/text/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/normalizer.h"
#include "weft/io/text/tokenizer.h"
#include "weft/io/unicode/composition.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

Words words_by(const std::string& json, const std::string& text) {
  return PreTokenizer::read(Json{{"pre_tokenizer", Json::parse(json)}}, "t").words(text, true);
}

std::string normal_by(const std::string& json, const std::string& text) {
  return Normalizer::read(Json{{"normalizer", Json::parse(json)}}, "t").apply(text);
}

TEST(Composition, CanonicalFormsAreUnicodes) {
  EXPECT_EQ(composed("e\u0301 cafe\u0301"), "\u00e9 caf\u00e9");
  EXPECT_EQ(decomposed("\u00e9"), "e\u0301");
  EXPECT_EQ(composed("a\u0308\u0323"), "\u1ea1\u0308") << "marks are sorted before they join";
  EXPECT_EQ(composed("\u212b"), "\u00c5") << "the sign of an angstrom is a letter";
  EXPECT_EQ(composed("\u0344"), "\u0308\u0301") << "some never join again";
  EXPECT_EQ(composed("\u1100\u1161\u11a8"), "\uac01");
  EXPECT_EQ(decomposed("\uac01"), "\u1100\u1161\u11a8");
  EXPECT_EQ(composed("e\xff\u0301"), "e\xff\u0301") << "nothing joins across a malformed byte";
  EXPECT_EQ(composed("\u0301"), "\u0301");
  EXPECT_EQ(composed("e\u0301\u0301"), "\u00e9\u0301");
  EXPECT_EQ(composed("plain"), "plain");
}

TEST(Composition, FormsAreStable) {
  for (char32_t point = 0x80; point < 0x30000; ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    std::string text;
    for (const char32_t each : {U'a', point, U'\u0301'}) append_utf8(each, text);
    const std::string once = composed(text);
    ASSERT_EQ(composed(once), once) << static_cast<int>(point);
    ASSERT_EQ(composed(decomposed(text)), once) << static_cast<int>(point);
    ASSERT_EQ(decomposed(once), decomposed(text)) << static_cast<int>(point);
  }
}

TEST(Normalizer, StepsInTheirOrder) {
  EXPECT_EQ(normal_by(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},
      {"type":"Replace","pattern":{"String":" "},"content":"_"}]})",
                      "a b"),
            "_a_b");
  EXPECT_EQ(normal_by(R"({"type":"Prepend","prepend":"_"})", ""), "");
  EXPECT_EQ(normal_by(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})", "a   b c"), "a b c");
  EXPECT_EQ(normal_by(R"({"type":"Strip","strip_left":false,"strip_right":true})", " a \u3000"), " a");
  EXPECT_EQ(normal_by(R"({"type":"Lowercase"})", "ÀΣÇ\u0130\u01c4X"), "àσçi\u0307\u01c6x");
  EXPECT_EQ(
      normal_by(
          R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})",
          "H\u00e9llo\t\u4e2d\u6587\x01!"),
      "hello  \u4e2d  \u6587 !");
}

TEST(PreTokenizer, SplitsBehaveAsNamed) {
  const auto split = [](const char* behavior, const char* more = "") {
    return words_by(fmt::format(R"({{"type":"Split","pattern":{{"String":"-"}},"behavior":"{}"{}}})", behavior, more),
                    "the-final--countdown");
  };
  EXPECT_EQ(split("Removed"), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(split("Isolated"), (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithPrevious"), (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithNext"), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("Contiguous"), (Words{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split("Removed", R"(,"invert":true)"), (Words{"-", "-", "-"}));
}

TEST(PreTokenizer, StagesFollowOneAnother) {
  EXPECT_EQ(words_by(R"({"type":"Digits","individual_digits":true})", "ab12\u00bd"), (Words{"ab", "1", "2", "\u00bd"}));
  EXPECT_EQ(words_by(R"({"type":"Digits","individual_digits":false})", "ab12c"), (Words{"ab", "12", "c"}));
  EXPECT_EQ(words_by(R"({"type":"BertPreTokenizer"})", " Hi, you$ "), (Words{"Hi", ",", "you", "$"}));
  EXPECT_EQ(words_by(R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
      {"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]})",
                     "a 12 b"),
            (Words{"a", " ", "1", "2", " b"}));
  EXPECT_EQ(words_by(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})", "a  b"),
            (Words{"▁a", "▁", "▁b"}));
}

// The case of the issue: `a <extra> b`, the token as add_tokens writes it, before and after the normalizer.
TEST(AddedTokensNormalized, AreLookedForInTheNormalisedText) {
  ScratchFolder folder;
  const std::string json =
      R"({"added_tokens":[{"id":9,"content":"<x>","normalized":NORMALIZED}],"pre_tokenizer":null,"decoder":null,
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
"model":{"type":"BPE","unk_token":"u","vocab":{"u":0,"a":1,"b":2,"▁":3,"▁a":4,"▁b":5},"merges":["▁ a","▁ b"]}})";
  const auto ids = [&](const char* normalized, const char* text) {
    std::string with = json;
    with.replace(with.find("NORMALIZED"), 10, normalized);
    folder.write("tokenizer.json", with);
    return Tokenizer::load(folder.path())->encode(text);
  };
  EXPECT_EQ(ids("true", "a <x> b"), (std::vector<int>{4, 9, 5}));
  EXPECT_EQ(ids("false", "a <x> b"), (std::vector<int>{4, 3, 9, 3, 5}));
  EXPECT_EQ(ids("true", "a<x>"), (std::vector<int>{4, 0, 0, 0})) << "as normalised it begins with a mark";
}

}  // namespace
}  // namespace weft
