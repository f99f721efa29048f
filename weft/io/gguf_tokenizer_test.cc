// Tokenizers out of GGUF files give the ids of the folders that they were made from.
#include "weft/io/gguf_tokenizer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/refusal_test.h"
#include "weft/io/gguf_cutting.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/sentencepiece/sentencepiece_model.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/tensor/write_gguf.h"

namespace weft {
namespace {

const std::string kTokenizers = std::string(WEFT_SOURCE) + "/tests/tokenizers/";
using Settings = std::vector<std::pair<std::string, GgufSetting>>;

constexpr const char* kTexts[] = {"The weft is the thread drawn through the warp.",
                                  "  two  spaces\n\n\nlines\t1234567 I'LL we've",
                                  "\xC3\xA9t\xC3\xA9 \xF0\x9F\x98\x80 \xE4\xBD\xA0\xE5\xA5\xBD",
                                  "<|end_of_text|> </s> <s>",
                                  " leading",
                                  "trailing ",
                                  "x"};

void expect_same_ids(const Tokenizer& wanted, const Tokenizer& got) {
  EXPECT_EQ(got.vocab_size(), wanted.vocab_size());
  EXPECT_EQ(got.bos(), wanted.bos());
  EXPECT_EQ(got.eos(), wanted.eos());
  EXPECT_EQ(got.adds_bos(), wanted.adds_bos());
  for (const char* text : kTexts) {
    EXPECT_EQ(got.encode(text), wanted.encode(text)) << text;
    EXPECT_EQ(got.encode_with_special(text), wanted.encode_with_special(text)) << text;
    EXPECT_EQ(got.decode(got.encode(text)), wanted.decode(wanted.encode(text))) << text;
  }
}

// llama.cpp's lists of a byte-level tokenizer.json.
Settings byte_level_lists(const std::string& folder, const std::string& pre) {
  const Json json = load_json(folder + "/tokenizer.json");
  std::vector<std::string> tokens(json["model"]["vocab"].size() + json["added_tokens"].size()), merges;
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const auto& [text, id] : json["model"]["vocab"].items()) tokens[id.get<std::size_t>()] = text;
  for (const Json& added : json["added_tokens"]) {
    const auto id = added["id"].get<std::size_t>();
    tokens[id] = added["content"], types[id] = added["special"].get<bool>() ? 3 : 4;
  }
  while (tokens.back().empty()) tokens.pop_back(), types.pop_back();
  for (const Json& merge : json["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  const auto tokenizer = Tokenizer::load(folder);
  Settings out = {{"tokenizer.ggml.model", std::string("gpt2")},
                  {"tokenizer.ggml.pre", pre},
                  {"tokenizer.ggml.tokens", tokens},
                  {"tokenizer.ggml.token_type", types},
                  {"tokenizer.ggml.merges", merges},
                  {"tokenizer.ggml.add_bos_token", tokenizer->adds_bos()}};
  if (tokenizer->bos()) out.push_back({"tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(*tokenizer->bos())});
  if (tokenizer->eos()) out.push_back({"tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(*tokenizer->eos())});
  return out;
}

TEST(GgufTokenizer, ByteLevelListsGiveTheFoldersIds) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.gguf");
  write_gguf(path, byte_level_lists(kTokenizers + "llama3-ignore-merges", "llama-bpe"), {});
  EXPECT_TRUE(Tokenizer::is_in(path));
  expect_same_ids(*Tokenizer::load(kTokenizers + "llama3-ignore-merges"), *Tokenizer::load(path));
  for (const auto& [name, pre] : {std::pair{"digits", "refact"}, {"digits", "smollm"}, {"o200k", "gpt-4o"}}) {
    write_gguf(path, byte_level_lists(kTokenizers + name, pre), {});
    expect_same_ids(*Tokenizer::load(kTokenizers + name), *Tokenizer::load(path));
  }
  const std::string weft16 = std::string(WEFT_SOURCE) + "/models/weft-16";
  write_gguf(path, byte_level_lists(weft16, "gpt-2"), {});
  expect_same_ids(*Tokenizer::load(weft16), *Tokenizer::load(path));
}

TEST(GgufTokenizer, CuttingsHaveLlamaCppsNames) {
  const auto name_of = [](const std::string& folder) {
    return gguf_cutting_name(load_json(folder + "/tokenizer.json"));
  };
  EXPECT_EQ(name_of(std::string(WEFT_SOURCE) + "/models/weft-16"), "gpt-2");
  EXPECT_EQ(name_of(kTokenizers + "llama3-ignore-merges"), "llama-bpe");
  EXPECT_EQ(name_of(kTokenizers + "llama3"), "dbrx");  // the same words, merges heeded
  EXPECT_EQ(name_of(kTokenizers + "qwen2"), "qwen2");
  EXPECT_EQ(name_of(kTokenizers + "digits"), "refact");
  EXPECT_EQ(name_of(kTokenizers + "o200k"), "gpt-4o");
  for (const char* none : {"neox", "splits", "gemma", "word-piece"}) EXPECT_EQ(name_of(kTokenizers + none), "") << none;
  EXPECT_FALSE(gguf_cutting("a rule nobody knows"));
  EXPECT_TRUE(gguf_cutting("tekken")->ignore_merges);
}

TEST(GgufTokenizer, TheWholeOfTokenizerJsonGoesBeforeLists) {
  const ScratchFolder folder;
  const std::string from = kTokenizers + "llama3";
  Settings settings = byte_level_lists(from, "a rule nobody knows");
  settings.push_back({"tokenizer.huggingface.json", read_text_file(from + "/tokenizer.json", 1 << 24)});
  write_gguf(folder.file("x.gguf"), settings, {});
  expect_same_ids(*Tokenizer::load(from), *Tokenizer::load(folder.file("x.gguf")));
}

TEST(GgufTokenizer, PiecesWithScoresGiveSentencepiecesIds) {
  const std::string from = kTokenizers + "sp-bpe";
  const std::string file = read_text_file(from + "/tokenizer.model", 1 << 24);
  const SentencePieceModel model = parse_sentencepiece(file, from);
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const SentencePiece& piece : model.pieces) {
    tokens.push_back(piece.text), scores.push_back(piece.score);
    types.push_back(static_cast<std::int32_t>(piece.type));
  }
  const auto wanted = Tokenizer::load(from);
  Settings settings = {{"tokenizer.ggml.model", std::string("llama")},
                       {"tokenizer.ggml.tokens", tokens},
                       {"tokenizer.ggml.scores", scores},
                       {"tokenizer.ggml.token_type", types},
                       {"tokenizer.ggml.add_space_prefix", model.add_dummy_prefix},
                       {"tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(model.unknown)}};
  const ScratchFolder folder;
  write_gguf(folder.file("x.gguf"), settings, {});
  const auto got = Tokenizer::load(folder.file("x.gguf"));
  for (const char* text : kTexts) EXPECT_EQ(got->encode(text), wanted->encode(text)) << text;
}

TEST(GgufTokenizer, WrongListsAreRefused) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.gguf");
  const auto said = [&](const Settings& settings) {
    write_gguf(path, settings, {});
    return refusal([&] { Tokenizer::load(path); });
  };
  const std::vector<std::string> two = {"a", "b"};
  EXPECT_EQ(said({}), path + ": the file carries no tokenizer; give prompts as tokens (--prompt-ids)");
  EXPECT_EQ(said({{"tokenizer.ggml.model", std::string("bert")}}),
            path + ": \"tokenizer.ggml.model\" is \"bert\"; gpt2 and llama are read, others from the model's folder");
  const std::string words =
      said({{"tokenizer.ggml.model", std::string("gpt2")}, {"tokenizer.ggml.pre", std::string("bloom")}});
  EXPECT_EQ(words.rfind(path + ": \"tokenizer.ggml.pre\" is \"bloom\"; gpt-2, ", 0), 0u) << words;
  EXPECT_NE(words.find("llama4 are read, others from the model's folder"), std::string::npos) << words;
  EXPECT_EQ(said({{"tokenizer.ggml.model", std::string("gpt2")},
                  {"tokenizer.ggml.tokens", two},
                  {"tokenizer.ggml.token_type", std::vector<std::int32_t>{1}}}),
            path + ": \"tokenizer.ggml.token_type\" has 1 items for 2 tokens; the file is damaged");
  EXPECT_EQ(said({{"tokenizer.ggml.model", std::string("gpt2")},
                  {"tokenizer.ggml.tokens", std::vector<std::string>{"a", "a"}}}),
            path + ": \"tokenizer.ggml.tokens\" has \"a\" twice; the file is damaged");
  EXPECT_EQ(said({{"tokenizer.ggml.model", std::string("llama")},
                  {"tokenizer.ggml.tokens", two},
                  {"tokenizer.ggml.scores", std::vector<float>{1}}}),
            path + ": \"tokenizer.ggml.scores\" has 1 items for 2 tokens; the file is damaged");
}

}  // namespace
}  // namespace weft
