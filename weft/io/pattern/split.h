// How byte-level tokenizers cut a text into words before they merge: the regular expressions that most tokenizer.json
// files carry, as scanners written by hand. pattern.h reads these and any others, at some thirty times the cost; the
// tests compare the two.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

enum class SplitRule {
  none,    // the whole text is one word
  gpt2,    // contractions; letters, numbers or others, each with a space before; spaces
  llama3,  // numbers in threes, punctuation with the line ends after it, lines, contractions in any case
  qwen2,   // as llama3, but every digit alone
};

// The rule of a pattern as the file writes it; none where no scanner is for it (then pattern.h reads it).
std::optional<SplitRule> known_split_rule(std::string_view pattern);

// The bytes of the first word of a text that is not empty; at least 1. Malformed bytes are neither letters nor numbers
// nor spaces.
std::size_t first_word(SplitRule rule, std::string_view text);

}  // namespace weft
