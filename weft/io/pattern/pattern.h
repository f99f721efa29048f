// The regular expressions of tokenizer.json files, those that no hand-written scanner of split.h is for. A pattern is
// compiled to a short program; a match tries its branches in order, as the libraries do, and visits each place of the
// text at most once per instruction, so that no text takes exponential time.
//
// Known: literals, ., classes [^a-z\p{L}\s], \s \S \d \D \w \W \p{..} \P{..}, \n \r \t \xHH \x{H..} \uHHHH, groups (..)
// (?:..) (?i:..) (?>..), look-ahead (?=..) (?!..), | and the repeats * + ? {m} {m,} {m,n}, each also possessive (a++).
// Anything else is refused in a sentence that quotes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Pattern {
 public:
  Pattern() = default;                                                  // matches nothing
  static Pattern parse(std::string_view text, std::string_view where);  // throws bad_input

  // Bytes of the match that begins at text[at]; 0 where none does, or it is empty. Malformed bytes are U+FFFD each.
  std::size_t match(std::string_view text, std::size_t at) const;

  bool is_empty() const { return program_ == nullptr; }

  struct Program;

 private:
  std::shared_ptr<const Program> program_;
};

}  // namespace weft
