#include "weft/io/text/pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/text/normalizer.h"
#include "weft/io/text/piece_bpe.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

using Words = std::vector<std::string>;

struct Stretch {
  std::size_t begin, end;
  bool matched;
};

// The text as stretches that match and those between. `match(at)` gives the bytes that match there, or 0.
template <typename Match>
std::vector<Stretch> stretches(std::string_view text, Match match) {
  std::vector<Stretch> result;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = match(at);
    if (length == 0) {
      at += first_character(text.substr(at)).length;
      continue;
    }
    if (at > begin) result.push_back({begin, at, false});
    result.push_back({at, at + length, true});
    begin = at += length;
  }
  if (begin < text.size()) result.push_back({begin, text.size(), false});
  return result;
}

// Joins a match to the stretch before it, unless that is a match as well.
std::vector<Stretch> with_previous(const std::vector<Stretch>& all) {
  std::vector<Stretch> result;
  bool after_match = false;
  for (const Stretch& one : all) {
    if (one.matched && !after_match && !result.empty())
      result.back().end = one.end;
    else
      result.push_back(one);
    after_match = one.matched;
  }
  return result;
}

std::vector<Stretch> with_next(const std::vector<Stretch>& all) {
  std::vector<Stretch> result;
  bool before_match = false;
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->matched && !before_match && !result.empty())
      result.back().begin = one->begin;
    else
      result.push_back(*one);
    before_match = one->matched;
  }
  return {result.rbegin(), result.rend()};
}

std::vector<Stretch> behaved(std::vector<Stretch> all, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::isolated:
      return all;
    case SplitBehavior::removed:
      std::erase_if(all, [](const Stretch& one) { return one.matched; });
      return all;
    case SplitBehavior::merged_with_previous:
      return with_previous(all);
    case SplitBehavior::merged_with_next:
      return with_next(all);
    case SplitBehavior::contiguous: {
      std::vector<Stretch> result;
      for (const Stretch& one : all)
        if (!result.empty() && result.back().matched == one.matched)
          result.back().end = one.end;
        else
          result.push_back(one);
      return result;
    }
  }
  return all;
}

void add_words(std::string_view text, const std::vector<Stretch>& all, Words& out) {
  for (const Stretch& one : all) out.emplace_back(text.substr(one.begin, one.end - one.begin));
}

void add_by_rule(std::string_view text, SplitRule rule, Words& out) {
  while (!text.empty()) {
    const std::size_t length = first_word(rule, text);
    out.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
}

void apply(const SplitStage& stage, std::string_view text, bool, Words& out) {
  const auto* rule = std::get_if<SplitRule>(&stage.by);
  if (rule != nullptr && stage.behavior == SplitBehavior::isolated && !stage.invert)
    return add_by_rule(text, *rule, out);
  std::vector<Stretch> all = stretches(text, [&](std::size_t at) -> std::size_t {
    if (rule != nullptr) return first_word(*rule, text.substr(at));
    if (const auto* pattern = std::get_if<Pattern>(&stage.by)) return pattern->match(text, at);
    const std::string& plain = std::get<std::string>(stage.by);
    return text.substr(at).starts_with(plain) ? plain.size() : 0;
  });
  if (stage.invert)
    for (Stretch& one : all) one.matched = !one.matched;
  add_words(text, behaved(std::move(all), stage.behavior), out);
}

void apply(const ByteLevelStage& stage, std::string_view text, bool, Words& out) {
  const std::string spaced = stage.prefix_space && text[0] != ' ' ? " " + std::string(text) : std::string();
  add_by_rule(spaced.empty() ? text : std::string_view(spaced), stage.use_regex ? SplitRule::gpt2 : SplitRule::none,
              out);
}

void apply(const MetaspaceStage& stage, std::string_view text, bool first, Words& out) {
  std::string marked;
  for (const char c : text) marked += c == ' ' ? std::string(kSpaceMark) : std::string(1, c);
  const bool wanted =
      stage.prepend == MetaspaceStage::Prepend::always || (stage.prepend == MetaspaceStage::Prepend::first && first);
  if (wanted && !marked.starts_with(kSpaceMark)) marked.insert(0, kSpaceMark);
  std::string_view rest = marked;
  while (!rest.empty()) {
    const std::size_t end = stage.split ? rest.find(kSpaceMark, 1) : std::string_view::npos;
    out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
  }
}

bool is_any_punctuation(char32_t point) {
  const bool ascii = point > 0x20 && point < 0x7F && !is_letter(point) && !is_number(point);
  return ascii || is_punctuation(point);
}

void apply(const ClassStage& stage, std::string_view text, bool, Words& out) {
  using Class = ClassStage::Class;
  const auto is_in = stage.of == Class::number ? is_number : stage.of == Class::space ? is_space : is_any_punctuation;
  const auto all = stretches(text, [&](std::size_t at) {
    const Character next = first_character(text.substr(at));
    return is_in(next.point) ? next.length : 0;
  });
  add_words(text, behaved(all, stage.behavior), out);
}

SplitBehavior parse_behavior(const std::string& name, const std::string& where) {
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  bad_input("{}: \"behavior\" is {}; give Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous", where,
            weft::quoted(name));
}

SplitStage read_split(const Json& json, const std::string& where) {
  SplitStage stage{.behavior = parse_behavior(get_string(json, "behavior", where), where),
                   .invert = stage_flag(json, "invert", false, where)};
  const Json& pattern = get_object(json, "pattern", where);
  if (find_field(pattern, "String", where)) {
    stage.by = get_string(pattern, "String", where);
    if (std::get<std::string>(stage.by).empty()) bad_input("{}: Split has an empty pattern; leave it out", where);
    return stage;
  }
  const std::string regex = get_string(pattern, "Regex", where + ": \"pattern\"");
  if (const auto rule = known_split_rule(regex))
    stage.by = *rule;
  else
    stage.by = Pattern::parse(regex, where);
  return stage;
}

MetaspaceStage read_metaspace(const Json& json, const std::string& where) {
  if (get_string(json, "replacement", where) != kSpaceMark)
    bad_input("{}: \"replacement\" is not \"\xE2\x96\x81\"; only that is done here", where);
  const bool old = stage_flag(json, "add_prefix_space", true, where);
  const Json* named = find_field(json, "prepend_scheme", where);
  const std::string scheme =
      named && !named->is_null() ? get_string(json, "prepend_scheme", where) : (old ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    bad_input("{}: \"prepend_scheme\" is {}; give \"always\", \"first\" or \"never\"", where, weft::quoted(scheme));
  using Prepend = MetaspaceStage::Prepend;
  return {.prepend = scheme == "never"   ? Prepend::never
                     : scheme == "first" ? Prepend::first
                                         : Prepend::always,
          .split = stage_flag(json, "split", true, where)};
}

ClassStage read_class(ClassStage::Class of, const Json& json, const char* key, const std::string& where) {
  const Json* value = find_field(json, key, where);
  if (of == ClassStage::Class::number)
    return {of, stage_flag(json, key, false, where) ? SplitBehavior::isolated : SplitBehavior::contiguous};
  return {of,
          value && !value->is_null() ? parse_behavior(get_string(json, key, where), where) : SplitBehavior::isolated};
}

}  // namespace

PreTokenizer PreTokenizer::read(const Json& tokenizer, const std::string& path) {
  const std::string where = path + ": \"pre_tokenizer\"";
  using Class = ClassStage::Class;
  std::vector<Stage> stages;
  for (const Json* json : stages_of(tokenizer, "pre_tokenizer", "pretokenizers", path)) {
    const std::string type = get_string(*json, "type", where);
    if (!stages.empty() && std::holds_alternative<ByteLevelStage>(stages.back()))
      bad_input("{}: {} behind ByteLevel is not done here; ByteLevel must be the last stage", where,
                weft::quoted(type));
    if (type == "Split") {
      stages.emplace_back(read_split(*json, where));
    } else if (type == "ByteLevel") {
      stages.emplace_back(ByteLevelStage{.prefix_space = stage_flag(*json, "add_prefix_space", true, where),
                                         .use_regex = stage_flag(*json, "use_regex", true, where)});
    } else if (type == "Metaspace") {
      stages.emplace_back(read_metaspace(*json, where));
    } else if (type == "Digits") {
      stages.emplace_back(read_class(Class::number, *json, "individual_digits", where));
    } else if (type == "Punctuation") {
      stages.emplace_back(read_class(Class::punctuation, *json, "behavior", where));
    } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
      stages.emplace_back(ClassStage{Class::space, SplitBehavior::removed});
      if (type == "BertPreTokenizer") stages.emplace_back(ClassStage{Class::punctuation, SplitBehavior::isolated});
    } else {
      refuse_stage(where, type);
    }
  }
  return PreTokenizer(std::move(stages));
}

std::vector<std::string> PreTokenizer::words(std::string text, bool first) const {
  Words words;
  if (!text.empty()) words.push_back(std::move(text));
  for (const Stage& stage : stages_) {
    Words next;
    bool leads = first;  // the first word of the first text
    for (const std::string& word : words) {
      std::visit([&](const auto& each) { apply(each, word, leads, next); }, stage);
      leads = false;
    }
    words = std::move(next);
  }
  return words;
}

bool PreTokenizer::is_byte_level() const {
  return !stages_.empty() && std::holds_alternative<ByteLevelStage>(stages_.back());
}

bool PreTokenizer::prepends() const {
  for (const Stage& stage : stages_)
    if (const auto* metaspace = std::get_if<MetaspaceStage>(&stage))
      return metaspace->prepend != MetaspaceStage::Prepend::never;
  return false;
}

}  // namespace weft
