#include "weft/io/sentencepiece/charsmap.h"

#include "weft/base/error.h"

namespace weft {
namespace {

// A unit of the double array: the label of the byte that leads to it, where its children are (an offset to XOR with
// their bytes), and whether one of them, at byte 0, is a leaf with a value.
std::uint32_t label_of(std::uint32_t unit) { return unit & (0x80000000u | 0xFFu); }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1u) != 0; }

std::uint32_t read_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, std::string_view where) {
  if (blob.empty()) return;
  const std::uint32_t trie_bytes = blob.size() < 4 ? 0 : read_u32(blob);
  if (blob.size() < 4 || trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > blob.size() - 4)
    bad_input("{}: \"precompiled_charsmap\" has {} bytes, which do not hold its trie of {}; the file is damaged", where,
              blob.size(), trie_bytes);
  for (std::size_t at = 4; at < 4 + std::size_t{trie_bytes}; at += 4) trie_.push_back(read_u32(blob.substr(at, 4)));
  texts_ = blob.substr(4 + std::size_t{trie_bytes});
}

Charsmap::Match Charsmap::match(std::string_view text) const {
  Match best;
  if (trie_.empty()) return best;
  std::size_t place = offset_of(trie_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    place ^= byte;
    if (byte == 0 || place >= trie_.size() || label_of(trie_[place]) != byte) break;
    const std::uint32_t unit = trie_[place];
    place ^= offset_of(unit);
    if (place >= trie_.size()) break;
    if (!has_leaf(unit)) continue;
    const std::size_t start = trie_[place] & 0x7FFFFFFFu;
    if (start < texts_.size()) {
      const std::string_view rest = std::string_view(texts_).substr(start);
      best = {i + 1, rest.substr(0, rest.find('\0'))};
    }
  }
  return best;
}

}  // namespace weft
