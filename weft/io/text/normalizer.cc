#include "weft/io/text/normalizer.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/unicode/composition.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

std::string replaced(std::string_view text, const ReplaceStep& step) {
  std::string result;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = !step.from.empty() ? (text.substr(at).starts_with(step.from) ? step.from.size() : 0)
                                                  : step.pattern.match(text, at);
    if (length > 0) {
      result += step.to;
      at += length;
    } else {
      result += text[at++];
    }
  }
  return result;
}

std::string stripped(std::string_view text, const StripStep& step) {
  while (step.left && !text.empty()) {
    const Character next = first_character(text);
    if (!is_space(next.point)) break;
    text.remove_prefix(next.length);
  }
  if (step.right) text = without_spaces_before(text);
  return std::string(text);
}

// Calls use(point, bytes) for every character, malformed bytes one by one.
template <typename Use>
std::string mapped(std::string_view text, Use use) {
  std::string result;
  while (!text.empty()) {
    const Character next = first_character(text);
    use(next.point, text.substr(0, next.length), result);
    text.remove_prefix(next.length);
  }
  return result;
}

std::string lowercased(std::string_view text) {
  return mapped(text, [](char32_t point, std::string_view bytes, std::string& out) {
    const std::u32string_view lower = lowercase(point);
    if (lower.empty()) out += bytes;
    for (const char32_t each : lower) append_utf8(each, out);
  });
}

std::string without_marks(std::string_view text) {
  return mapped(text, [](char32_t point, std::string_view bytes, std::string& out) {
    if (category_of(point) != Category::Mn) out += bytes;
  });
}

bool is_chinese(char32_t point) {
  return (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0x3400 && point <= 0x4DBF) ||
         (point >= 0x20000 && point <= 0x2A6DF) || (point >= 0x2A700 && point <= 0x2B73F) ||
         (point >= 0x2B740 && point <= 0x2B81F) || (point >= 0x2B920 && point <= 0x2CEAF) ||
         (point >= 0xF900 && point <= 0xFAFF) || (point >= 0x2F800 && point <= 0x2FA1F);
}

std::string as_bert(std::string_view text, const BertStep& step) {
  std::string result(text);
  if (step.clean)
    result = mapped(result, [](char32_t point, std::string_view bytes, std::string& out) {
      const bool blank = point == '\t' || point == '\n' || point == '\r';
      if (!blank && (point == 0xFFFD || is_control(point))) return;  // U+0085 is both: it goes
      out += is_space(point) ? " " : bytes;
    });
  if (step.chinese)
    result = mapped(result, [](char32_t point, std::string_view bytes, std::string& out) {
      if (is_chinese(point))
        out.append(" ").append(bytes).append(" ");
      else
        out += bytes;
    });
  if (step.strip_accents) result = without_marks(decomposed(result));
  return step.lowercase ? lowercased(result) : result;
}

std::string applied(std::string_view text, const Normalizer::Step& step) {
  if (const auto* prepend = std::get_if<PrependStep>(&step))
    return text.empty() ? std::string() : prepend->text + std::string(text);
  if (const auto* replace = std::get_if<ReplaceStep>(&step)) return replaced(text, *replace);
  if (const auto* strip = std::get_if<StripStep>(&step)) return stripped(text, *strip);
  if (const auto* bert = std::get_if<BertStep>(&step)) return as_bert(text, *bert);
  switch (std::get<SimpleStep>(step)) {
    case SimpleStep::nfc:
      return composed(text);
    case SimpleStep::nfd:
      return decomposed(text);
    case SimpleStep::lowercase:
      return lowercased(text);
    case SimpleStep::strip_accents:
      return without_marks(text);
  }
  return std::string(text);
}

ReplaceStep read_replace(const Json& stage, const std::string& where) {
  const Json& pattern = get_object(stage, "pattern", where);
  ReplaceStep step{.to = get_string(stage, "content", where)};
  if (find_field(pattern, "Regex", where))
    step.pattern = Pattern::parse(get_string(pattern, "Regex", where), where);
  else
    step.from = get_string(pattern, "String", where + ": \"pattern\"");
  if (step.from.empty() && step.pattern.is_empty()) bad_input("{}: Replace has an empty pattern; leave it out", where);
  return step;
}

BertStep read_bert(const Json& stage, const std::string& where) {
  BertStep step;
  step.clean = stage_flag(stage, "clean_text", true, where);
  step.chinese = stage_flag(stage, "handle_chinese_chars", true, where);
  step.lowercase = stage_flag(stage, "lowercase", true, where);
  step.strip_accents = stage_flag(stage, "strip_accents", step.lowercase, where);
  return step;
}

}  // namespace

std::vector<const Json*> stages_of(const Json& json, const char* field, const char* list, const std::string& path) {
  const Json* stage = find_field(json, field, path);
  if (!stage || stage->is_null()) return {};
  const std::string where = fmt::format("{}: \"{}\"", path, field);
  std::vector<const Json*> result, open{stage};
  while (!open.empty()) {  // a Sequence may hold another
    const Json* next = open.back();
    open.pop_back();
    if (get_string(*next, "type", where) != "Sequence") {
      result.push_back(next);
      continue;
    }
    const Json& inner = get_array(*next, list, where);
    for (std::size_t i = inner.size(); i-- > 0;) open.push_back(&inner[i]);
  }
  return result;
}

bool stage_flag(const Json& object, const char* key, bool otherwise, const std::string& where) {
  const Json* value = find_field(object, key, where);
  return value && !value->is_null() ? get_bool(object, key, where) : otherwise;
}

void refuse_stage(const std::string& where, const std::string& type) {
  bad_input("{}: {} is not done here; docs/tokenizers.md lists the stages that are", where, weft::quoted(type));
}

Normalizer Normalizer::read(const Json& tokenizer, const std::string& path) {
  const std::string where = path + ": \"normalizer\"";
  std::vector<Step> steps;
  for (const Json* stage : stages_of(tokenizer, "normalizer", "normalizers", path)) {
    const std::string type = get_string(*stage, "type", where);
    if (type == "Prepend")
      steps.emplace_back(PrependStep{get_string(*stage, "prepend", where)});
    else if (type == "Replace")
      steps.emplace_back(read_replace(*stage, where));
    else if (type == "NFC")
      steps.emplace_back(SimpleStep::nfc);
    else if (type == "NFD")
      steps.emplace_back(SimpleStep::nfd);
    else if (type == "Lowercase")
      steps.emplace_back(SimpleStep::lowercase);
    else if (type == "StripAccents")
      steps.emplace_back(SimpleStep::strip_accents);
    else if (type == "Strip")
      steps.emplace_back(
          StripStep{stage_flag(*stage, "strip_left", true, where), stage_flag(*stage, "strip_right", true, where)});
    else if (type == "BertNormalizer")
      steps.emplace_back(read_bert(*stage, where));
    else if (type == "Precompiled")
      bad_input(
          "{}: Precompiled is sentencepiece's map in another file's form (T5, XLM-R); put tokenizer.json away, and the "
          "tokenizer.model of the same model is read",
          where);
    else
      refuse_stage(where, type);
  }
  return Normalizer(std::move(steps));
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const Step& step : steps_) result = applied(result, step);
  return result;
}

}  // namespace weft
