// Sentencepiece's table of replacements before encoding (NFKC and the like), as its models carry it: a trie in a
// double array, and the texts that its leaves point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing
  // `blob` as in the model: u32 bytes of the trie, the trie, texts that end in NUL. Throws bad_input where it is cut.
  Charsmap(std::string_view blob, std::string_view where);

  // The longest beginning of `text` that is replaced, and by what; length 0 where none is.
  struct Match {
    std::size_t length = 0;
    std::string_view replacement;
  };
  Match match(std::string_view text) const;

 private:
  std::vector<std::uint32_t> trie_;
  std::string texts_;
};

}  // namespace weft
