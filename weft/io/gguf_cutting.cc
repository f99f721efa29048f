#include "weft/io/gguf_cutting.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/text/normalizer.h"

namespace weft {
namespace {

enum class WordKind { gpt2, digits, single_digit, three_digits, tekken, o200k };

struct NamedCutting {
  std::string_view name;
  WordKind kind;
  bool ignore_merges, adds_bos, nfc;
};

// The first of a kind is what is written; the others are read alike. A family's folder has NFC where it is said here,
// though llama.cpp itself normalises nothing.
constexpr NamedCutting kCuttings[] = {
    {"gpt-2", WordKind::gpt2, false, false, false},
    {"gpt2", WordKind::gpt2, false, false, false},
    {"phi-2", WordKind::gpt2, false, false, false},
    {"olmo", WordKind::gpt2, false, false, true},
    {"mpt", WordKind::gpt2, false, false, true},
    {"refact", WordKind::digits, false, false, false},
    {"starcoder", WordKind::digits, false, false, false},
    {"smollm", WordKind::digits, false, false, false},
    {"qwen2", WordKind::single_digit, false, false, true},
    {"deepseek-r1-qwen", WordKind::single_digit, false, false, true},
    {"stablelm2", WordKind::single_digit, false, false, true},
    {"llama-bpe", WordKind::three_digits, true, true, false},
    {"llama3", WordKind::three_digits, true, true, false},
    {"llama-v3", WordKind::three_digits, true, true, false},
    {"dbrx", WordKind::three_digits, false, false, false},
    {"smaug-bpe", WordKind::three_digits, false, false, false},
    {"tekken", WordKind::tekken, true, true, false},
    {"gpt-4o", WordKind::o200k, false, false, false},
    {"llama4", WordKind::o200k, false, false, false},
};

// Words by the case of their letters; `ending` behind a word, `digits` of a number.
std::string by_case(std::string_view ending, std::string_view digits) {
  constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return fmt::format(R"([^\r\n\p{{L}}\p{{N}}]?{0}*{1}+{2}|[^\r\n\p{{L}}\p{{N}}]?{0}+{1}*{2}|{3})"
                     R"(| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                     kUpper, kLower, ending, digits);
}

std::string pattern_of_kind(WordKind kind) {
  if (kind == WordKind::tekken) return by_case("", R"(\p{N})");
  if (kind == WordKind::o200k) return by_case("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", R"(\p{N}{1,3})");
  return fmt::format(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{})"
                     R"(| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                     kind == WordKind::single_digit ? R"(\p{N})" : R"(\p{N}{1,3})");
}

Json stages_of_kind(WordKind kind) {
  const bool gpt2 = kind == WordKind::gpt2 || kind == WordKind::digits;
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", gpt2}};
  Json first = {{"type", "Digits"}, {"individual_digits", true}};
  if (!gpt2)
    first = {{"type", "Split"},
             {"pattern", {{"Regex", pattern_of_kind(kind)}}},
             {"behavior", "Isolated"},
             {"invert", false}};
  if (kind == WordKind::gpt2) return bytes;
  return {{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
}

// What of the stages decides about words, so that two spellings of the same compare equal.
std::string decisive(const Json& tokenizer) {
  std::string out;
  for (const Json* stage : stages_of(tokenizer, "pre_tokenizer", "pretokenizers", "tokenizer.json")) {
    const std::string type = stage->value("type", "");
    out += type + "|";
    if (type == "ByteLevel")
      out += fmt::format("{} {}", stage->value("add_prefix_space", true), stage->value("use_regex", true));
    else if (type == "Digits")
      out += fmt::format("{}", stage->value("individual_digits", false));
    else
      out += stage->dump();
    out += "\n";
  }
  return out;
}

}  // namespace

std::optional<GgufCutting> gguf_cutting(std::string_view name) {
  for (const NamedCutting& one : kCuttings)
    if (one.name == name)
      return GgufCutting{one.nfc ? Json{{"type", "NFC"}} : Json(), stages_of_kind(one.kind), one.ignore_merges,
                         one.adds_bos};
  return std::nullopt;
}

std::string gguf_cutting_names() {
  std::string out;
  for (const NamedCutting& one : kCuttings) out += (out.empty() ? "" : ", ") + std::string(one.name);
  return out;
}

std::string gguf_cutting_name(const Json& tokenizer) {
  const std::string wanted = decisive(tokenizer);
  const bool ignores = tokenizer["model"].value("ignore_merges", false);
  for (const NamedCutting& one : kCuttings)
    if (one.ignore_merges == ignores && decisive({{"pre_tokenizer", stages_of_kind(one.kind)}}) == wanted)
      return std::string(one.name);
  return "";
}

}  // namespace weft
