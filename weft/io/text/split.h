// How byte-level tokenizers cut a text into words before they merge: the regular expressions that tokenizer.json files
// carry, each known one as a scanner written by hand. A general engine would backtrack on hostile text; these look at
// every character a bounded number of times.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

enum class SplitRule {
  none,    // the whole text is one word
  gpt2,    // contractions; letters, numbers or others, each with a space before; spaces
  llama3,  // numbers in threes, punctuation with the line ends after it, lines, contractions in any case
  qwen2,   // as llama3, but every digit alone
};

// The rule of a pattern as the file writes it. Throws bad_input that quotes a pattern we do not know.
SplitRule parse_split_rule(std::string_view pattern, std::string_view where);

// The bytes of the first word of a text that is not empty; at least 1. Malformed bytes are neither letters nor numbers
// nor spaces.
std::size_t first_word(SplitRule rule, std::string_view text);

}  // namespace weft
