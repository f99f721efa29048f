#include "weft/io/text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/text/byte_level_bpe.h"
#include "weft/io/text/piece_bpe.h"

namespace weft {
namespace {

const JsonLimits kTokenizerLimits{.bytes = std::size_t{256} << 20, .depth = 32};

bool get_flag(const Json& object, const char* key, bool otherwise, const std::string& where) {
  const Json* value = find_field(object, key, where);
  return value && !value->is_null() ? get_bool(object, key, where) : otherwise;
}

std::string get_text(const Json& object, const char* key, const std::string& where) {
  const Json* value = find_field(object, key, where);
  return value && !value->is_null() ? get_string(object, key, where) : "";
}

// The stages of "normalizer", "pre_tokenizer", "decoder" or "post_processor": null, one, or a Sequence of them.
std::vector<const Json*> stages_of(const Json& json, const char* field, const char* list, const std::string& path) {
  const Json* stage = find_field(json, field, path);
  if (!stage || stage->is_null()) return {};
  const std::string where = fmt::format("{}: \"{}\"", path, field);
  if (get_string(*stage, "type", where) != "Sequence") return {stage};
  std::vector<const Json*> result;
  for (const Json& inner : get_array(*stage, list, where)) result.push_back(&inner);
  return result;
}

[[noreturn]] void refuse_stage(const std::string& where, const std::string& type) {
  bad_input("{}: {} is not done here; byte-level BPE (GPT-2, Llama 3) and BPE over \xE2\x96\x81 (Llama 2) are", where,
            weft::quoted(type));
}

// {"pattern": {"Regex": "..."}} or {"pattern": {"String": "..."}}
std::string pattern_of(const Json& stage, const char* kind, const std::string& where) {
  return get_string(get_object(stage, "pattern", where), kind, where + ": \"pattern\"");
}

struct Shape {  // what the stages say
  bool byte_level = false, replaces_spaces = false;
  ByteLevelOptions bytes;
  PieceOptions pieces;
};

void read_normalizers(const Json& json, const std::string& path, Shape& shape) {
  const std::string where = path + ": \"normalizer\"";
  for (const Json* stage : stages_of(json, "normalizer", "normalizers", path)) {
    const std::string type = get_string(*stage, "type", where);
    if (type == "Prepend" && get_string(*stage, "prepend", where) == kSpaceMark) {
      shape.pieces.prefix = SpacePrefix::always;
    } else if (type == "Replace" && pattern_of(*stage, "String", where) == " " &&
               get_string(*stage, "content", where) == kSpaceMark) {
      shape.replaces_spaces = true;
    } else {
      refuse_stage(where, type);
    }
  }
}

void read_metaspace(const Json& stage, const std::string& where, Shape& shape) {
  if (get_string(stage, "replacement", where) != kSpaceMark)
    bad_input("{}: \"replacement\" is not \"\xE2\x96\x81\"; only that is done here", where);
  const bool old = get_flag(stage, "add_prefix_space", true, where);
  const std::string named = get_text(stage, "prepend_scheme", where);
  const std::string scheme = named.empty() ? (old ? "always" : "never") : named;
  if (scheme != "always" && scheme != "first" && scheme != "never")
    bad_input("{}: \"prepend_scheme\" is {}; give \"always\", \"first\" or \"never\"", where, weft::quoted(scheme));
  shape.replaces_spaces = true;
  shape.pieces.prefix = scheme == "never" ? SpacePrefix::never : SpacePrefix::where_absent;
  shape.pieces.prefix_first_only = scheme == "first";
  shape.pieces.split = get_flag(stage, "split", true, where);
}

void read_split(const Json& stage, const std::string& where, Shape& shape) {
  if (get_string(stage, "behavior", where) != "Isolated" || get_flag(stage, "invert", false, where))
    bad_input("{}: only a Split with \"behavior\" \"Isolated\" and not inverted is done here", where);
  shape.bytes.rule = parse_split_rule(pattern_of(stage, "Regex", where), where);
}

void read_pre_tokenizers(const Json& json, const std::string& path, Shape& shape) {
  const std::string where = path + ": \"pre_tokenizer\"";
  bool has_split = false;
  for (const Json* stage : stages_of(json, "pre_tokenizer", "pretokenizers", path)) {
    const std::string type = get_string(*stage, "type", where);
    if (type == "Split" && !has_split && !shape.byte_level && !shape.replaces_spaces) {
      read_split(*stage, where, shape);
      has_split = true;
    } else if (type == "ByteLevel" && !shape.byte_level && !shape.replaces_spaces) {
      shape.byte_level = true;
      shape.bytes.prefix_space = get_flag(*stage, "add_prefix_space", true, where);
      const bool use_regex = get_flag(*stage, "use_regex", true, where);
      if (has_split && (use_regex || shape.bytes.prefix_space))
        bad_input("{}: ByteLevel after Split must have \"use_regex\" and \"add_prefix_space\" false", where);
      if (!has_split) shape.bytes.rule = use_regex ? SplitRule::gpt2 : SplitRule::none;
    } else if (type == "Metaspace" && !has_split && !shape.byte_level && !shape.replaces_spaces) {
      read_metaspace(*stage, where, shape);
    } else {
      refuse_stage(where, type);
    }
  }
  if (!shape.byte_level && (has_split || !shape.replaces_spaces))
    bad_input("{}: neither ByteLevel nor anything that writes spaces as \xE2\x96\x81; other tokenizers are not read",
              where);
}

void read_decoders(const Json& json, const std::string& path, Shape& shape) {
  const std::string where = path + ": \"decoder\"";
  for (const Json* stage : stages_of(json, "decoder", "decoders", path)) {
    const std::string type = get_string(*stage, "type", where);
    if (shape.byte_level ? type == "ByteLevel" : type == "ByteFallback" || type == "Fuse") continue;
    if (!shape.byte_level && type == "Metaspace") {
      if (shape.pieces.prefix != SpacePrefix::never) shape.pieces.leading_space = LeadingSpace::drop_one;
    } else if (!shape.byte_level && type == "Strip" && get_string(*stage, "content", where) == " " &&
               get_int(*stage, "start", where, 0, 1) + get_int(*stage, "stop", where, 0, 0) >= 0) {
      if (get_int(*stage, "start", where) == 1) shape.pieces.leading_space = LeadingSpace::drop_one;
    } else if (shape.byte_level || type != "Replace" || pattern_of(*stage, "String", where) != kSpaceMark ||
               get_string(*stage, "content", where) != " ") {
      refuse_stage(where, type);
    }
  }
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

void check_model(const Json& model, const std::string& where) {
  if (const std::string type = get_text(model, "type", where); type != "BPE" && !type.empty())
    bad_input("{}: \"type\" is {}; only BPE is read from tokenizer.json (unigram from tokenizer.model)", where,
              weft::quoted(type));
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

}  // namespace

LoadedTokenizer load_tokenizer_json(const std::string& path) {
  const Json json = load_json(path, kTokenizerLimits);
  const std::string where = path + ": \"model\"";
  const Json& model = get_object(json, "model", path);
  check_model(model, where);
  Shape shape;
  read_normalizers(json, path, shape);
  read_pre_tokenizers(json, path, shape);
  if (shape.byte_level && (shape.replaces_spaces || shape.pieces.prefix != SpacePrefix::never))
    bad_input("{}: \"normalizer\" writes \xE2\x96\x81 before ByteLevel, which is not done here", path);
  read_decoders(json, path, shape);
  Vocabulary vocabulary = read_vocabulary(get_object(model, "vocab", where), where + ": \"vocab\"");
  Merges merges = read_merges(get_array(model, "merges", where), vocabulary, where);
  std::vector<AddedToken> added = read_added(json, vocabulary.texts.size(), path);
  const std::optional<int> unknown = unknown_of(model, vocabulary, where);
  const bool ignore_merges = get_flag(model, "ignore_merges", false, where);
  LoadedTokenizer result{nullptr, template_bos_of(json, path)};
  if (shape.byte_level) {
    shape.bytes.unknown = unknown;
    shape.bytes.ignore_merges = ignore_merges;
    result.tokenizer = std::make_unique<ByteLevelBpe>(vocabulary, std::move(merges), std::move(added), shape.bytes);
  } else {
    shape.pieces.unknown = unknown;
    shape.pieces.ignore_merges = ignore_merges;
    shape.pieces.byte_fallback = get_flag(model, "byte_fallback", false, where);
    shape.pieces.fuse_unknown = get_flag(model, "fuse_unk", false, where);
    result.tokenizer =
        std::make_unique<PieceBpe>(std::move(vocabulary), std::move(merges), std::move(added), shape.pieces, where);
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
  ByteLevelOptions options{.prefix_space = prefix_space};
  return {std::make_unique<ByteLevelBpe>(vocabulary, std::move(merges), std::move(added), options), ""};
}

}  // namespace weft
