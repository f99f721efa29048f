#include "weft/io/text/byte_level_bpe.h"

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

// The alphabet: printable Latin-1 characters stand for themselves, the other bytes for U+0100, U+0101, ... in order.
struct Alphabet {
  std::array<std::string, 256> letters;
  std::unordered_map<char32_t, unsigned char> bytes;

  Alphabet() {
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t point = prints ? byte : next++;
      append_utf8(point, letters[byte]);
      bytes[point] = static_cast<unsigned char>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

// The bytes of a token; none where it has a character outside the alphabet.
std::optional<std::string> bytes_of(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const Character next = first_character(text);
    const auto found = alphabet().bytes.find(next.point);
    if (found == alphabet().bytes.end()) return std::nullopt;
    bytes += static_cast<char>(found->second);
    text.remove_prefix(next.length);
  }
  return bytes;
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(const Vocabulary& vocabulary, Merges merges, std::vector<AddedToken> added,
                           const ByteLevelOptions& options, TextPipeline pipeline)
    : PipelineTokenizer(std::move(pipeline)), options_(options), merges_(std::move(merges)) {
  for (std::size_t byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = vocabulary.find(alphabet().letters[byte]).value_or(-1);
  pieces_.resize(vocabulary.texts.size());
  for (int id = 0; id < int_size(pieces_); ++id) {
    const std::optional<std::string> bytes = bytes_of(vocabulary.texts[at(id)]);
    pieces_[at(id)] = bytes.value_or(vocabulary.texts[at(id)]);
    if (bytes && !bytes->empty() && options_.ignore_merges) whole_words_[*bytes] = id;
  }
  add_tokens(added);
  // As the library decodes: an added token is read in the alphabet too, where all of its characters are in it.
  for (const AddedToken& token : added) pieces_[at(token.id)] = bytes_of(token.text).value_or(token.text);
}

void ByteLevelBpe::encode_word(std::string_view word, std::vector<int>& tokens) const {
  if (options_.ignore_merges) {
    if (const auto whole = whole_words_.find(std::string(word)); whole != whole_words_.end()) {
      tokens.push_back(whole->second);
      return;
    }
  }
  std::vector<int> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const int token = byte_tokens_[static_cast<unsigned char>(c)];
    if (token < 0 && !options_.unknown)
      bad_input("the text has byte 0x{:02x}, for which the vocabulary has no token; leave it out",
                static_cast<unsigned char>(c));
    symbols.push_back(token >= 0 ? token : *options_.unknown);
  }
  merges_.apply(symbols);
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
}

}  // namespace weft
