#include "weft/io/gguf_tokenizer.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/gguf_cutting.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/text/tokenizer_config.h"
#include "weft/io/text/tokenizer_json.h"

namespace weft {
namespace {

constexpr const char* kWholeJson = "tokenizer.huggingface.json";
constexpr std::int64_t kControl = 3, kUserDefined = 4;  // types of tokens
constexpr std::int64_t kMostTokenId = std::int64_t{1} << 24;

struct GgufTokens {
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> types;
};

GgufTokens tokens_of(const GgufFile& file) {
  GgufTokens out{file.get_texts("tokenizer.ggml.tokens"), {}};
  out.types.assign(out.texts.size(), 1);
  if (file.has("tokenizer.ggml.token_type")) out.types = file.get_ints("tokenizer.ggml.token_type");
  if (out.types.size() != out.texts.size())
    bad_input("{}: \"tokenizer.ggml.token_type\" has {} items for {} tokens; the file is damaged", file.path(),
              out.types.size(), out.texts.size());
  return out;
}

void set_vocabulary(const GgufFile& file, const GgufTokens& tokens, Json* json) {
  Json vocab = Json::object();
  Json added = Json::array();
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    const std::string text(tokens.texts[id]);
    if (!vocab.emplace(text, id).second)
      bad_input("{}: \"tokenizer.ggml.tokens\" has {} twice; the file is damaged", file.path(), weft::quoted(text));
    if (tokens.types[id] == kControl || tokens.types[id] == kUserDefined)
      added.push_back(
          {{"id", id}, {"content", text}, {"special", tokens.types[id] == kControl}, {"normalized", false}});
  }
  (*json)["model"]["vocab"] = std::move(vocab);
  (*json)["added_tokens"] = std::move(added);
}

GgufCutting cutting_of(const GgufFile& file) {
  const std::string name = file.has("tokenizer.ggml.pre") ? file.get_text("tokenizer.ggml.pre") : "gpt-2";
  if (std::optional<GgufCutting> cutting = gguf_cutting(name)) return *std::move(cutting);
  bad_input("{}: \"tokenizer.ggml.pre\" is {}; {} are read, others from the model's folder", file.path(),
            weft::quoted(name), gguf_cutting_names());
}

Json byte_level_json(const GgufFile& file) {
  GgufCutting cutting = cutting_of(file);
  Json json = {{"normalizer", std::move(cutting.normalizer)},
               {"pre_tokenizer", std::move(cutting.pre_tokenizer)},
               {"decoder", {{"type", "ByteLevel"}}}};
  json["model"] = {{"type", "BPE"}, {"ignore_merges", cutting.ignore_merges}, {"merges", Json::array()}};
  set_vocabulary(file, tokens_of(file), &json);
  for (const std::string_view merge : file.get_texts("tokenizer.ggml.merges"))
    json["model"]["merges"].push_back(std::string(merge));
  return json;
}

// Sentencepiece merges the neighbours whose joined text has the highest score: the same as merges in order of scores,
// those of one text in the order of their parts.
Json merges_by_score(const GgufFile& file, const GgufTokens& tokens) {
  const std::vector<float> scores = file.get_floats("tokenizer.ggml.scores");
  if (scores.size() != tokens.texts.size())
    bad_input("{}: \"tokenizer.ggml.scores\" has {} items for {} tokens; the file is damaged", file.path(),
              scores.size(), tokens.texts.size());
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.texts.size(); ++id)
    if (tokens.types[id] == 1) ids.emplace(tokens.texts[id], id);
  struct Merge {
    float score;
    std::size_t whole, left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, whole] : ids)
    for (std::size_t cut = 1; cut < std::min<std::size_t>(text.size(), 256); ++cut) {
      const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({scores[whole], whole, left->second, right->second});
    }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::tie(a.whole, a.left, a.right) < std::tie(b.whole, b.left, b.right);
  });
  Json out = Json::array();
  for (const Merge& merge : merges)
    out.push_back({std::string(tokens.texts[merge.left]), std::string(tokens.texts[merge.right])});
  return out;
}

Json piece_json(const GgufFile& file) {
  const GgufTokens tokens = tokens_of(file);
  const std::string mark = "\xE2\x96\x81";
  Json normalizers = Json::array();
  if (file.get_bool("tokenizer.ggml.add_space_prefix", true))
    normalizers.push_back({{"type", "Prepend"}, {"prepend", mark}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}});
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}};
  Json decoders = {replace, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (normalizers.size() == 2) decoders.push_back(strip);
  Json json = {{"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
               {"pre_tokenizer", nullptr},
               {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}};
  json["model"] = {{"type", "BPE"}, {"byte_fallback", true}, {"fuse_unk", true}};
  set_vocabulary(file, tokens, &json);
  const std::int64_t unknown = file.get_int("tokenizer.ggml.unknown_token_id", 0, std::ssize(tokens.texts) - 1, 0);
  json["model"]["unk_token"] = std::string(tokens.texts[at(unknown)]);
  json["model"]["merges"] = merges_by_score(file, tokens);
  return json;
}

// The text of the token whose id a setting names; empty where it names none.
std::string text_of(const GgufFile& file, const Json& json, const char* key) {
  if (!file.has(key)) return "";
  const std::int64_t id = file.get_int(key, 0, kMostTokenId);
  if (const auto added = json.find("added_tokens"); added != json.end() && added->is_array())
    for (const Json& token : *added)
      if (get_int(token, "id", file.path()) == id) return get_string(token, "content", file.path());
  for (const auto& [text, number] : get_object(get_object(json, "model", file.path()), "vocab", file.path()).items())
    if (number == id) return text;
  return "";
}

}  // namespace

bool has_gguf_tokenizer(const std::string& path) {
  const GgufFile file = GgufFile::open(path);
  return file.has(kWholeJson) || file.has("tokenizer.ggml.model");
}

Json gguf_tokenizer_json(const GgufFile& file) {
  if (file.has(kWholeJson))
    return parse_json(file.get_text(kWholeJson), file.path() + ", " + kWholeJson,
                      {.bytes = std::size_t{64} << 20, .depth = 32});
  if (!file.has("tokenizer.ggml.model"))
    bad_input("{}: the file carries no tokenizer; give prompts as tokens (--prompt-ids)", file.path());
  const std::string kind = file.get_text("tokenizer.ggml.model");
  if (kind == "gpt2") return byte_level_json(file);
  if (kind == "llama") return piece_json(file);
  bad_input("{}: \"tokenizer.ggml.model\" is {}; gpt2 and llama are read, others from the model's folder", file.path(),
            weft::quoted(kind));
}

std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::string& path) {
  const GgufFile file = GgufFile::open(path);
  const Json json = gguf_tokenizer_json(file);
  LoadedTokenizer loaded = read_tokenizer_json(json, path);
  const std::string bos = text_of(file, json, "tokenizer.ggml.bos_token_id");
  const bool pieces = file.has("tokenizer.ggml.model") && file.get_text("tokenizer.ggml.model") == "llama";
  const auto cutting = gguf_cutting(file.has("tokenizer.ggml.pre") ? file.get_text("tokenizer.ggml.pre") : "");
  const bool usual = pieces || (cutting && cutting->adds_bos);
  const bool adds_bos = file.get_bool("tokenizer.ggml.add_bos_token", usual) && !bos.empty();
  TokenizerConfig().apply({bos, text_of(file, json, "tokenizer.ggml.eos_token_id"), adds_bos}, *loaded.tokenizer);
  return std::move(loaded.tokenizer);
}

}  // namespace weft
