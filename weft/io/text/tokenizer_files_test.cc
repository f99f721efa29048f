// Tokenizer files that are wrong: refused in a sentence that names file and field, or survived as mutants.
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/json.h"
#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

const std::string kTokenizers = WEFT_SOURCE "/tests/tokenizers/";

constexpr const char* kByteLevel =
    R"({"added_tokens":[{"id":7,"content":"<end>","special":true,"lstrip":false,"rstrip":true}],
"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"decoder":{"type":"ByteLevel"},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<end>","type_id":0}},{"Sequence":{"id":"A"}}]},
"model":{"type":"BPE","dropout":null,"unk_token":"u","ignore_merges":true,"vocab":{"a":0,"b":1,"ab":2,"abab":3,"u":4,"Ġ":5,"Ġa":6},
"merges":["a b",["ab","ab"],"Ġ a"]}})";

constexpr const char* kPieces =
    R"({"added_tokens":[{"id":0,"content":"<unk>","special":true},{"id":7,"content":"<x>","special":false}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
"pre_tokenizer":null,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,
"vocab":{"<unk>":0,"a":1,"b":2,"▁":3,"▁a":4,"<0x41>":5,"ab":6},"merges":["a b","▁ a"]}})";

constexpr const char* kUnigram =
    R"({"added_tokens":[{"id":0,"content":"<unk>","special":true},{"id":6,"content":"<x>","normalized":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}]},
"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},
"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},
"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["▁",-2.0],["a",-3.5],["b",-4.0],["▁a",-3.0],["ab",-4.5]]}})";

constexpr const char* kWordPiece =
    R"({"added_tokens":[{"id":0,"content":"[UNK]","special":true}],
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"BertPreTokenizer"},
{"type":"Split","pattern":{"Regex":"b+|[^\\p{L}]"},"behavior":"MergedWithNext","invert":false}]},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[UNK]":0,"a":1,"b":2,"##b":3,"ab":4,".":5}}})";

std::string read_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class TokenizerFiles : public ::testing::Test {
 protected:
  // What loading says of tokenizer.json after its path, with `from` replaced by `to` in it.
  std::string said(std::string json, const std::string& from, const std::string& to) {
    const std::size_t at = json.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    json.replace(at, from.size(), to);
    const std::string path = folder_.write("tokenizer.json", json);
    const std::string message = refusal([&] { Tokenizer::load(folder_.path()); });
    return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "(no path) " + message;
  }

  static void use(const Tokenizer& tokenizer) {
    const std::vector<int> ids = tokenizer.encode_with_special("ab abab <end> <x>b\xff \xE4\xB8\xAD==");
    tokenizer.decode(ids);
    for (int id = 0; id < std::min(tokenizer.vocab_size(), 600); ++id) tokenizer.decode(std::vector<int>{id});
  }

  ScratchFolder folder_;
};

TEST_F(TokenizerFiles, TheSmallOnesAreRead) {
  folder_.write("tokenizer.json", kByteLevel);
  const auto bytes = Tokenizer::load(folder_.path());
  EXPECT_EQ(bytes->encode("abab abz a"), (std::vector<int>{3, 5, 2, 4, 6}));
  EXPECT_EQ(bytes->encode_with_special("a<end>  b"), (std::vector<int>{0, 7, 1}));
  EXPECT_EQ(bytes->bos(), 7);
  folder_.write("tokenizer.json", kPieces);
  const auto pieces = Tokenizer::load(folder_.path());
  EXPECT_EQ(pieces->encode("a abAcc<x>"), (std::vector<int>{4, 3, 6, 5, 0, 7}));
  EXPECT_EQ(pieces->decode(std::vector<int>{4, 3, 6, 5, 0, 7}), "a abA<unk><x>");
}

TEST_F(TokenizerFiles, TheOtherModelsAreRead) {
  folder_.write("tokenizer.json", kUnigram);
  const auto unigram = Tokenizer::load(folder_.path());
  EXPECT_EQ(unigram->encode("a  abzzb"), (std::vector<int>{4, 1, 5, 0, 3}))
      << "unknown characters side by side are one";
  EXPECT_EQ(unigram->decode(std::vector<int>{4, 1, 5}), "a ab");
  folder_.write("tokenizer.json", kWordPiece);
  const auto words = Tokenizer::load(folder_.path());
  EXPECT_EQ(words->encode("\u00c1 abzz."), (std::vector<int>{1, 1, 0, 5})) << "a word that cannot be made is unknown";
  EXPECT_EQ(words->decode(std::vector<int>{1, 4, 3, 5}), "a abb.");
}

TEST_F(TokenizerFiles, ModelsThatAreDamagedAreRefusedNamingTheField) {
  EXPECT_EQ(said(kUnigram, R"("unk_id":0)", R"("unk_id":6)"),
            "\"model\": \"unk_id\" is 6; give a whole number from 0 to 5");
  EXPECT_EQ(said(kUnigram, R"("unk_id":0,)", ""),
            "\"model\": there is neither \"unk_id\" nor \"byte_fallback\" for unknown characters; give one");
  EXPECT_EQ(said(kUnigram, R"(["a",-3.5])", R"(["a"])"),
            "\"model\": item 2 of \"vocab\" is no pair of a text and a score; the file is damaged");
  EXPECT_EQ(said(kWordPiece, R"("unk_token":"[UNK]")", R"("unk_token":"[NO]")"),
            "\"model\": \"unk_token\" \"[NO]\" is not in the vocabulary");
  EXPECT_EQ(said(kWordPiece, R"({"type":"BertPreTokenizer"})", R"({"type":"ByteLevel"})"),
            "\"pre_tokenizer\": \"Split\" behind ByteLevel is not done here; ByteLevel must be the last stage");
}

TEST_F(TokenizerFiles, WhatIsNotDoneIsRefusedNamingTheField) {
  EXPECT_EQ(said(kByteLevel, R"("type":"BPE")", R"("type":"WordLevel")"),
            "\"model\": \"type\" is \"WordLevel\"; BPE, Unigram and WordPiece are read");
  EXPECT_NE(
      said(kByteLevel, R"("normalizer":null)", R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"})")
          .find("put tokenizer.json away, and the tokenizer.model of the same model is read"),
      std::string::npos);
  EXPECT_EQ(said(kByteLevel, R"("normalizer":null)", R"("normalizer":{"type":"NFKC"})")
                .find("\"normalizer\": \"NFKC\" is not done here; docs/tokenizers.md lists"),
            0u);
  EXPECT_EQ(said(kByteLevel, R"("type":"ByteLevel")", R"("type":"Whitespace")")
                .find("\"pre_tokenizer\": \"Whitespace\" is not done here"),
            0u);
  EXPECT_EQ(said(kByteLevel, R"({"type":"ByteLevel","add)",
                 R"({"type":"Split","behavior":"Isolated","pattern":{"Regex":"\\w+?"},"add)"),
            "\"pre_tokenizer\": the splitting pattern \"\\\\w+?\" is not read here: repeats that take as little as "
            "possible are not done");
  EXPECT_EQ(
      said(kByteLevel, R"({"type":"ByteLevel","add)",
           R"({"type":"Split","behavior":"Apart","pattern":{"String":"x"},"add)"),
      "\"pre_tokenizer\": \"behavior\" is \"Apart\"; give Isolated, Removed, MergedWithPrevious, MergedWithNext or "
      "Contiguous");
  EXPECT_EQ(said(kByteLevel, R"("dropout":null)", R"("dropout":0.1)"),
            "\"model\": \"dropout\" is not 0; tokens would depend on chance");
  EXPECT_EQ(said(kByteLevel, R"("dropout":null)", R"("end_of_word_suffix":"</w>")"),
            "\"model\": \"end_of_word_suffix\" is \"</w>\", which is not done here; only \"\" is");
  EXPECT_NE(said(kByteLevel, R"("lstrip":false)", R"("single_word":3)").find("\"single_word\""), std::string::npos);
  EXPECT_EQ(said(kPieces, R"("type":"Prepend")", R"("type":"Nmt")").find("\"normalizer\": \"Nmt\" is not done here"),
            0u);
}

TEST_F(TokenizerFiles, DamageIsRefusedNamingTheField) {
  EXPECT_EQ(said(kByteLevel, R"("a b")", R"("a z")"),
            "\"model\": merge 0 (\"a\" \"z\") needs the token \"z\", which the vocabulary has not");
  EXPECT_EQ(said(kByteLevel, R"("a b")", R"("b a")"),
            "\"model\": merge 0 (\"b\" \"a\") needs the token \"ba\", which the vocabulary has not");
  EXPECT_EQ(said(kByteLevel, R"("a b")", R"("ab")"),
            "\"model\": item 0 of \"merges\" is neither \"a b\" nor [\"a\", \"b\"]; the file is damaged");
  EXPECT_EQ(said(kByteLevel, R"("b":1)", R"("b":0)"),
            "\"model\": \"vocab\": \"a\" and \"b\" both have id 0; the file is damaged");
  EXPECT_EQ(said(kByteLevel, R"("b":1)", R"("b":-1)"),
            "\"model\": \"vocab\": \"b\" is -1; give a whole number from 0 to 65564");
  EXPECT_EQ(said(kByteLevel, R"("b":1)", R"("b":4294967297)"),
            "\"model\": \"vocab\": \"b\" is 4294967297; give a whole number from 0 to 65564");
  EXPECT_EQ(said(kByteLevel, R"("id":7)", R"("id":2000000000)")
                .find("\"added_tokens\": \"id\" is 2000000000; give a whole number from 0 to "),
            0u);
  EXPECT_EQ(said(kByteLevel, R"("<end>","special)", R"("","special)"),
            "\"added_tokens\": \"content\" of added token 7 is empty; give its text");
  EXPECT_EQ(said(kByteLevel, R"("unk_token":"u")", R"("unk_token":"v")"),
            "\"model\": \"unk_token\" \"v\" is not in the vocabulary");
  EXPECT_EQ(said(kByteLevel, R"("model":)", R"("modle":)"), "\"model\" is missing; give an object {...}");
  EXPECT_EQ(said(kPieces, R"("unk_token":"<unk>",)", ""),
            "\"model\": there is neither \"unk_token\" nor a token <0x00> for unknown characters; give one");
}

TEST_F(TokenizerFiles, AFolderWithoutATokenizerIsNamed) {
  EXPECT_EQ(refusal([&] { Tokenizer::load(folder_.path()); }),
            folder_.path() +
                ": there is no tokenizer.json, no tokenizer.model and no vocab.json with merges.txt; add one of them");
}

TEST_F(TokenizerFiles, ConfigsAreChecked) {
  folder_.write("tokenizer.json", kByteLevel);
  const std::string path = folder_.file("tokenizer_config.json");
  const auto config = [&](const std::string& text) {
    folder_.write("tokenizer_config.json", text);
    return refusal([&] { Tokenizer::load(folder_.path()); });
  };
  EXPECT_EQ(config(R"({"bos_token": 3})"), path + ": \"bos_token\" is 3; give a string");
  EXPECT_EQ(config(R"({"add_bos_token": "yes"})"), path + ": \"add_bos_token\" is \"yes\"; give true or false");
  EXPECT_EQ(config(R"({"bos_token": "<s>", "add_bos_token": true})"),
            path + ": a token \"<s>\" is to begin every text, but the vocabulary has none; name it in \"bos_token\"");
  folder_.write("tokenizer_config.json", R"({"bos_token": {"content": "<end>"}, "add_bos_token": false})");
  EXPECT_EQ(Tokenizer::load(folder_.path())->bos(), 7);
}

// The files that tokenizer.json came from give the same tokens.
TEST_F(TokenizerFiles, VocabAndMergesAreAsTokenizerJson) {
  const Json model = load_json(WEFT_SOURCE "/models/weft-16/tokenizer.json")["model"];
  folder_.write("vocab.json", model["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : model["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  folder_.write("merges.txt", merges);
  folder_.write(
      "tokenizer_config.json",
      R"({"eos_token": "<|endoftext|>", "added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": true}}})");
  const auto old = Tokenizer::load(folder_.path());
  EXPECT_EQ(old->eos(), 0);
  const Json golden = load_json(kTokenizers + "weft-16.json");
  for (const Json& row : golden["rows"])
    EXPECT_EQ(old->encode(row["text"].get<std::string>()), row["ids"].get<std::vector<int>>()) << row["text"];
}

TEST_F(TokenizerFiles, WrongModelsAreRefusedNamingTheField) {
  const std::string path = folder_.file("tokenizer.model");
  const auto said_of = [&](const std::string& bytes) {
    folder_.write("tokenizer.model", bytes);
    const std::string message = refusal([&] { Tokenizer::load(folder_.path()); });
    return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "(no path) " + message;
  };
  const auto piece = [](const std::string& text, char type) {
    const std::string body = "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x18" + type;
    return "\x0a" + std::string(1, static_cast<char>(body.size())) + body;
  };
  EXPECT_EQ(said_of(""), "no piece of type UNKNOWN among 0; the file is damaged");
  EXPECT_EQ(said_of("\x0a\x7f"
                    "abc"),
            "a field of 127 bytes where 3 are left; the file is cut short");
  EXPECT_EQ(said_of("\x0b"), "field 1 has wire type 3; this is no sentencepiece model");
  EXPECT_EQ(said_of(std::string("\x0a\x02\x10\x05", 4)),
            "piece 0: field 2 has wire type 0 instead of 5; the file is damaged");
  EXPECT_EQ(said_of(piece("a", 9)), "piece 0: \"type\" is 9; 1 to 6 are known");
  EXPECT_EQ(said_of(piece("<0xZZ>", 6)), "piece 0: \"<0xZZ>\" is of type BYTE but not like <0x0A>");
  EXPECT_EQ(said_of(piece("a", 1) + piece("a", 1)), "piece 1 (\"a\") is there twice; the file is damaged");
  EXPECT_EQ(said_of(piece("u", 2) + "\x12\x02\x18\x04"),
            "\"trainer_spec\": \"model_type\" is 4; 1 (unigram) and 2 (BPE) are read");
  EXPECT_EQ(said_of(piece("u", 2) + "\x12\x03\x98\x02\x01"),
            "\"byte_fallback\" is true, but there is no piece <0x00> of type BYTE");
  EXPECT_EQ(said_of(piece("u", 2) + "\x1a\x05\x12\x03"
                                    "abc"),
            "\"normalizer_spec\": \"precompiled_charsmap\" has 3 bytes, which do not hold its trie of 0; the file is "
            "damaged");
}

TEST_F(TokenizerFiles, AListOfTiktokenIsNamed) {
  const std::string path = folder_.write("tokenizer.model", "IQ== 0\nIg== 1\nIw== 2\n");
  EXPECT_EQ(refusal([&] { Tokenizer::load(folder_.path()); }),
            path +
                ": this is a list of ranks of tiktoken, not a sentencepiece model; take the tokenizer.json of the same "
                "model");
}

// "legacy" of tokenizer_config.json: whether a space goes before the text behind a special token.
TEST_F(TokenizerFiles, LegacySaysWhereASpaceGoes) {
  folder_.write("tokenizer.model", read_bytes(kTokenizers + "sp-bpe/tokenizer.model"));
  const auto ids = [&](const char* config, const char* text) {
    folder_.write("tokenizer_config.json", config);
    return Tokenizer::load(folder_.path())->encode_with_special(text);
  };
  const std::vector<int> old = ids("{}", "<s>the</s>the"), now = ids(R"({"legacy": false})", "<s>the</s>the");
  EXPECT_EQ(old, ids(R"({"legacy": true})", "<s>the</s>the"));
  EXPECT_EQ(old[1], old[3]) << "the same word, a space before both";
  EXPECT_NE(now, old);
  EXPECT_EQ(ids(R"({"legacy": false})", "the"), ids("{}", "the")) << "the first has it in any case";
  EXPECT_EQ(ids(R"({"legacy": false})", "<s> the"), ids("{}", "<s>the")) << "one that is written stays";
}

TEST_F(TokenizerFiles, MutantsOfTokenizerJsonAreTakenOrRefused) {
  for (const char* original : {kByteLevel, kPieces, kUnigram, kWordPiece}) {
    const FuzzCounts counts = fuzz(original, 1500, [&](const std::string& mutant) {
      folder_.write("tokenizer.json", mutant);
      use(*Tokenizer::load(folder_.path()));
    });
    EXPECT_GT(counts.taken, 20);
    EXPECT_GT(counts.refused, 700);
  }
}

TEST_F(TokenizerFiles, MutantsOfTokenizerModelAreTakenOrRefused) {
  for (const std::string name : {"sp-bpe", "sp-unigram"}) {
    const FuzzCounts counts =
        fuzz(read_bytes(kTokenizers + name + "/tokenizer.model"), 1500, [&](const std::string& mutant) {
          folder_.write("tokenizer.model", mutant);
          use(*Tokenizer::load(folder_.path()));
        });
    EXPECT_GT(counts.taken, 20);
    EXPECT_GT(counts.refused, 300);
  }
}

// The beginning of the file is pieces; this one has the specifications first, so that changes fall on them.
TEST_F(TokenizerFiles, MutantsOfTheSpecificationsAreTakenOrRefused) {
  const std::string file = read_bytes(kTokenizers + "sp-unigram/tokenizer.model");
  const std::size_t pieces = file.size() - 1200;
  const FuzzCounts counts = fuzz(file.substr(pieces), 3000, [&](const std::string& mutant) {
    folder_.write("tokenizer.model", file.substr(0, pieces) + mutant);
    use(*Tokenizer::load(folder_.path()));
  });
  EXPECT_GT(counts.taken, 20);
  EXPECT_GT(counts.refused, 300);
}

// Units of the double array that name children far outside it (docs/tokenizers.md: what Debian's library does with
// these).
TEST_F(TokenizerFiles, ACharsmapThatPointsOutsideItselfIsHarmless) {
  const std::string file = read_bytes(kTokenizers + "sp-unigram/tokenizer.model");
  const std::string size_of_trie("\x00\x04\x00\x00", 4);  // 1024 bytes, the beginning of the charsmap
  const std::size_t trie = file.rfind(size_of_trie) + 4;
  ASSERT_LT(trie + 1024, file.size());
  const auto with_units = [&](const std::vector<std::pair<std::size_t, std::uint32_t>>& units) {
    std::string model = file;
    for (const auto& [at, unit] : units)
      for (std::size_t byte = 0; byte < 4; ++byte) model[trie + 4 * at + byte] = static_cast<char>(unit >> 8 * byte);
    folder_.write("tokenizer.model", model);
    use(*Tokenizer::load(folder_.path()));
  };
  with_units({{0, 0xFFFFFC00}});
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i)
    with_units({{0, static_cast<std::uint32_t>(random())},
                {random() % 256, static_cast<std::uint32_t>(random())},
                {random() % 256, static_cast<std::uint32_t>(random())}});
}

TEST_F(TokenizerFiles, MutantsOfConfigAndMergesAreTakenOrRefused) {
  folder_.write("vocab.json", R"({"a":0,"b":1,"ab":2,"abab":3})");
  fuzz("#version: 0.2\na b\nab ab\n", 1500, [&](const std::string& mutant) {
    folder_.write("merges.txt", mutant);
    use(*Tokenizer::load(folder_.path()));
  });
  folder_.write("merges.txt", "a b\n");
  fuzz(
      R"({"bos_token":"<s>","eos_token":{"content":"<s>"},"add_bos_token":true,"added_tokens_decoder":{"4":{"content":"<s>","special":true}}})",
      1500, [&](const std::string& mutant) {
        folder_.write("tokenizer_config.json", mutant);
        use(*Tokenizer::load(folder_.path()));
      });
}

}  // namespace
}  // namespace weft
