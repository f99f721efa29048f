// BPE over characters: where a space is put, what falls back to bytes, and what is unknown.
#include "weft/io/text/piece_bpe.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

using Ids = std::vector<int>;

// <unk>, ▁, a, b, ▁a, ab
Vocabulary few_pieces() {
  return read_vocabulary(Json{{"<unk>", 0}, {"▁", 1}, {"a", 2}, {"b", 3}, {"▁a", 4}, {"ab", 5}}, "v");
}

// Where a ▁ is put before a text: nowhere, before any text (as normalizers), before one without (as Metaspace).
enum class SpacePrefix { never, always, where_absent };

TextPipeline pipeline(SpacePrefix prefix, bool split = false) {
  const ReplaceStep marks{.from = " ", .to = std::string(kSpaceMark)};
  using Prepend = MetaspaceStage::Prepend;
  TextPipeline result;
  if (prefix == SpacePrefix::always) result.normalizer = Normalizer({PrependStep{std::string(kSpaceMark)}, marks});
  if (prefix == SpacePrefix::never && !split) result.normalizer = Normalizer({marks});
  if (prefix == SpacePrefix::where_absent || split)
    result.pre_tokenizer = PreTokenizer(
        {MetaspaceStage{.prepend = prefix == SpacePrefix::never ? Prepend::never : Prepend::always, .split = split}});
  return result;
}

PieceBpe tokenizer(const PieceOptions& options, Vocabulary vocabulary = few_pieces(),
                   SpacePrefix prefix = SpacePrefix::never) {
  Merges merges = read_merges(Json::array({"▁ a", "a b"}), vocabulary, "v");
  return PieceBpe(std::move(vocabulary), std::move(merges), {}, options, pipeline(prefix), "v");
}

PieceBpe tokenizer(SpacePrefix prefix) { return tokenizer({.unknown = 0}, few_pieces(), prefix); }

TEST(PieceBpe, SpacesAreMarksAndBack) {
  EXPECT_EQ(with_spaces("▁a▁▁b"), " a  b");
  EXPECT_EQ(with_spaces(""), "");
  EXPECT_EQ(with_spaces("\xE2\x96"), "\xE2\x96") << "half a mark";
}

TEST(PieceBpe, BytesAreWrittenInTwoDigits) {
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(byte_of_piece(fmt::format("<0x{:02X}>", byte)), byte);
  for (const char* other : {"", "<0x4>", "<0x4a>", "<0xG0>", "0x41", "<0x041>", "<0x41", "(0x41>", "<0x41)"})
    EXPECT_EQ(byte_of_piece(other), std::nullopt) << other;
}

TEST(PieceBpe, ASpaceIsPutWhereTheOptionsSay) {
  EXPECT_EQ(tokenizer(SpacePrefix::never).encode("a"), Ids{2});
  EXPECT_EQ(tokenizer(SpacePrefix::always).encode("a"), Ids{4});
  EXPECT_EQ(tokenizer(SpacePrefix::always).encode(" a"), (Ids{1, 4}));
  EXPECT_EQ(tokenizer(SpacePrefix::where_absent).encode("a"), Ids{4});
  EXPECT_EQ(tokenizer(SpacePrefix::where_absent).encode(" a"), Ids{4});
}

TEST(PieceBpe, WordsAreMergedApartWhereTheyAreSplit) {
  const PieceOptions options{.unknown = 0};
  Vocabulary vocabulary = few_pieces();
  vocabulary.add("b▁", 6);
  Merges merges = read_merges(Json::array({"b ▁"}), vocabulary, "v");
  const auto with = [&](bool split) {
    return PieceBpe(vocabulary, merges, {}, options, pipeline(SpacePrefix::never, split), "v");
  };
  EXPECT_EQ(with(false).encode("b a"), (Ids{6, 2}));
  EXPECT_EQ(with(true).encode("b a"), (Ids{3, 1, 2}));
}

TEST(PieceBpe, UnknownCharactersAreOneTokenEachOrFused) {
  PieceOptions options{.unknown = 0};
  EXPECT_EQ(tokenizer(options).encode("axyb"), (Ids{2, 0, 0, 3}));
  options.fuse_unknown = true;
  EXPECT_EQ(tokenizer(options).encode("axyb"), (Ids{2, 0, 3}));
  EXPECT_EQ(tokenizer(options).encode("x"), Ids{0});
}

TEST(PieceBpe, CharactersFallBackToTheirBytes) {
  Vocabulary vocabulary = few_pieces();
  for (int byte = 0; byte < 256; ++byte) vocabulary.add(fmt::format("<0x{:02X}>", byte), 10 + byte);
  PieceOptions options;
  options.byte_fallback = true;
  const PieceBpe bytes = tokenizer(options, vocabulary);
  const Ids ids = bytes.encode("aé");
  EXPECT_EQ(ids, (Ids{2, 10 + 0xC3, 10 + 0xA9}));
  EXPECT_EQ(bytes.decode(ids), "aé");
  EXPECT_EQ(bytes.decode(bytes.encode("\xff")), "\xEF\xBF\xBD") << "malformed bytes are U+FFFD";
}

TEST(PieceBpe, WithNothingToFallBackToItIsRefused) {
  PieceOptions options;
  EXPECT_NE(refusal([&] { tokenizer(options); }).find("neither \"unk_token\" nor a token <0x00>"), std::string::npos);
  Vocabulary vocabulary = few_pieces();
  for (int byte = 0; byte < 255; ++byte) vocabulary.add(fmt::format("<0x{:02X}>", byte), 10 + byte);
  options.byte_fallback = true;
  EXPECT_NE(refusal([&] { tokenizer(options, vocabulary); }).find("<0xFF>"), std::string::npos);
}

TEST(PieceBpe, AWholeWordGoesBeforeItsMergesWhereTheyAreIgnored) {
  Vocabulary vocabulary = few_pieces();
  vocabulary.add("bab", 6);
  PieceOptions options{.unknown = 0};
  EXPECT_EQ(tokenizer(options, vocabulary).encode("bab"), (Ids{3, 5})) << "no merge makes it";
  options.ignore_merges = true;
  EXPECT_EQ(tokenizer(options, vocabulary).encode("bab"), Ids{6});
}

}  // namespace
}  // namespace weft
