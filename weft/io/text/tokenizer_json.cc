#include "weft/io/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/text/byte_level_bpe.h"
#include "weft/io/text/piece_bpe.h"
#include "weft/io/text/unigram.h"
#include "weft/io/text/word_piece.h"

namespace weft {
namespace {

const JsonLimits kTokenizerLimits{.bytes = std::size_t{256} << 20, .depth = 32};

std::string get_text(const Json& object, const char* key, const std::string& where) {
  const Json* value = find_field(object, key, where);
  return value && !value->is_null() ? get_string(object, key, where) : "";
}

// {"pattern": {"Regex": "..."}} or {"pattern": {"String": "..."}}
std::string pattern_of(const Json& stage, const char* kind, const std::string& where) {
  return get_string(get_object(stage, "pattern", where), kind, where + ": \"pattern\"");
}

enum class ModelKind { bpe, unigram, word_piece };

// What a decoder may ask for beside what the model implies.
struct Decoding {
  LeadingSpace leading_space = LeadingSpace::keep;
  bool cleanup = false;
};

Decoding read_decoders(const Json& json, const std::string& path, ModelKind kind, const PreTokenizer& pre_tokenizer) {
  const std::string where = path + ": \"decoder\"";
  const bool byte_level = pre_tokenizer.is_byte_level();
  Decoding result;
  for (const Json* stage : stages_of(json, "decoder", "decoders", path)) {
    const std::string type = get_string(*stage, "type", where);
    if (kind == ModelKind::word_piece) {
      if (type != "WordPiece") refuse_stage(where, type);
      result.cleanup = stage_flag(*stage, "cleanup", true, where);
      result.leading_space = LeadingSpace::drop_one;
      continue;
    }
    if (byte_level ? type == "ByteLevel" : type == "ByteFallback" || type == "Fuse") continue;
    if (!byte_level && type == "Metaspace") {
      if (pre_tokenizer.prepends()) result.leading_space = LeadingSpace::drop_one;
    } else if (!byte_level && type == "Strip" && get_string(*stage, "content", where) == " " &&
               get_int(*stage, "start", where, 0, 1) + get_int(*stage, "stop", where, 0, 0) >= 0) {
      if (get_int(*stage, "start", where) == 1) result.leading_space = LeadingSpace::drop_one;
    } else if (byte_level || type != "Replace" || pattern_of(*stage, "String", where) != kSpaceMark ||
               get_string(*stage, "content", where) != " ") {
      refuse_stage(where, type);
    }
  }
  return result;
}

// {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": ...}]}
std::string template_bos_of(const Json& json, const std::string& path) {
  const std::string where = path + ": \"post_processor\"";
  for (const Json* stage : stages_of(json, "post_processor", "processors", path)) {
    if (get_string(*stage, "type", where) != "TemplateProcessing") continue;
    const Json& single = get_array(*stage, "single", where);
    if (single.empty()) continue;
    if (const Json* token = find_field(single[0], "SpecialToken", where)) return get_string(*token, "id", where);
  }
  return "";
}

std::vector<AddedToken> read_added(const Json& json, std::size_t vocabulary, const std::string& path) {
  const Json* list = find_field(json, "added_tokens", path);
  if (!list || list->is_null()) return {};
  std::vector<AddedToken> result;
  const Json& array = get_array(json, "added_tokens", path);
  const int most = largest_id(vocabulary + array.size());
  const std::string where = path + ": \"added_tokens\"";
  for (const Json& object : array)
    result.push_back(read_added_token(object, get_small(object, "id", where, 0, most), where));
  return result;
}

ModelKind kind_of(const Json& model, const std::string& where) {
  const std::string type = get_text(model, "type", where);
  if (type == "Unigram") return ModelKind::unigram;
  if (type == "WordPiece") return ModelKind::word_piece;
  if (type != "BPE" && !type.empty())
    bad_input("{}: \"type\" is {}; BPE, Unigram and WordPiece are read", where, weft::quoted(type));
  return ModelKind::bpe;
}

void check_bpe(const Json& model, const std::string& where) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const std::string text = get_text(model, key, where); !text.empty())
      bad_input("{}: \"{}\" is {}, which is not done here; only \"\" is", where, key, weft::quoted(text));
  if (const Json* dropout = find_field(model, "dropout", where);
      dropout && !dropout->is_null() && get_double(model, "dropout", where, 0, 1) != 0)
    bad_input("{}: \"dropout\" is not 0; tokens would depend on chance", where);
}

std::optional<int> unknown_of(const Json& model, const Vocabulary& vocabulary, const std::string& where) {
  const std::string text = get_text(model, "unk_token", where);
  if (text.empty()) return std::nullopt;
  const std::optional<int> id = vocabulary.find(text);
  if (!id) bad_input("{}: \"unk_token\" {} is not in the vocabulary", where, weft::quoted(text));
  return id;
}

std::unique_ptr<Tokenizer> bpe_of(const Json& json, const Json& model, const std::string& path, TextPipeline pipeline) {
  const std::string where = path + ": \"model\"";
  check_bpe(model, where);
  Vocabulary vocabulary = read_vocabulary(get_object(model, "vocab", where), where + ": \"vocab\"");
  Merges merges = read_merges(get_array(model, "merges", where), vocabulary, where);
  std::vector<AddedToken> added = read_added(json, vocabulary.texts.size(), path);
  const std::optional<int> unknown = unknown_of(model, vocabulary, where);
  const bool ignore_merges = stage_flag(model, "ignore_merges", false, where);
  if (pipeline.pre_tokenizer.is_byte_level())
    return std::make_unique<ByteLevelBpe>(vocabulary, std::move(merges), std::move(added),
                                          ByteLevelOptions{ignore_merges, unknown}, std::move(pipeline));
  const PieceOptions options{.ignore_merges = ignore_merges,
                             .byte_fallback = stage_flag(model, "byte_fallback", false, where),
                             .fuse_unknown = stage_flag(model, "fuse_unk", false, where),
                             .unknown = unknown};
  return std::make_unique<PieceBpe>(std::move(vocabulary), std::move(merges), std::move(added), options,
                                    std::move(pipeline), where);
}

}  // namespace

LoadedTokenizer load_tokenizer_json(const std::string& path) {
  return read_tokenizer_json(load_json(path, kTokenizerLimits), path);
}

LoadedTokenizer read_tokenizer_json(const Json& json, const std::string& path) {
  const std::string where = path + ": \"model\"";
  const Json& model = get_object(json, "model", path);
  const ModelKind kind = kind_of(model, where);
  TextPipeline pipeline{Normalizer::read(json, path), PreTokenizer::read(json, path)};
  const Decoding decoding = read_decoders(json, path, kind, pipeline.pre_tokenizer);
  pipeline.leading_space = decoding.leading_space;
  if (kind != ModelKind::bpe && pipeline.pre_tokenizer.is_byte_level())
    bad_input("{}: ByteLevel is for BPE; it is not done before another model", path);
  LoadedTokenizer result{nullptr, template_bos_of(json, path)};
  if (kind == ModelKind::unigram) {
    UnigramPieces pieces = read_unigram(model, where);
    std::vector<AddedToken> added = read_added(json, pieces.texts.size(), path);
    result.tokenizer = std::make_unique<Unigram>(std::move(pieces), std::move(added), std::move(pipeline));
  } else if (kind == ModelKind::word_piece) {
    Vocabulary vocabulary = read_vocabulary(get_object(model, "vocab", where), where + ": \"vocab\"");
    WordPieceOptions options = read_word_piece(model, vocabulary, where);
    options.cleanup = decoding.cleanup;
    std::vector<AddedToken> added = read_added(json, vocabulary.texts.size(), path);
    result.tokenizer =
        std::make_unique<WordPiece>(std::move(vocabulary), std::move(added), std::move(options), std::move(pipeline));
  } else {
    result.tokenizer = bpe_of(json, model, path, std::move(pipeline));
  }
  return result;
}

LoadedTokenizer load_vocab_and_merges(const std::string& vocab_path, const std::string& merges_path, bool prefix_space,
                                      std::vector<AddedToken> added) {
  const Vocabulary vocabulary = read_vocabulary(load_json(vocab_path, kTokenizerLimits), vocab_path);
  const std::string text = read_text_file(merges_path, kTokenizerLimits.bytes);
  Merges merges;
  std::size_t number = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.rfind("#version", 0) == 0) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos)
      bad_input("{}: merge {} ({}) is not two tokens with a space between", merges_path, number, weft::quoted(line));
    add_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), number++, vocabulary,
              merges_path, merges);
  }
  TextPipeline pipeline;
  pipeline.pre_tokenizer = PreTokenizer({ByteLevelStage{.prefix_space = prefix_space}});
  return {std::make_unique<ByteLevelBpe>(vocabulary, std::move(merges), std::move(added), ByteLevelOptions{},
                                         std::move(pipeline)),
          ""};
}

}  // namespace weft
