// The pieces that a text can be made of, in a trie: which of them begin here, shortest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

class PieceTrie {
 public:
  void add(std::string_view text, int id) {
    std::uint32_t node = 0;
    for (const char c : text) {
      const auto [child, is_new] = children_.try_emplace(key(node, c), static_cast<std::uint32_t>(ids_.size()));
      if (is_new) ids_.push_back(-1);
      node = child->second;
    }
    ids_[node] = id;
  }

  // Calls use(length, id) for every piece that `text` begins with.
  template <typename Use>
  void for_each_prefix(std::string_view text, Use use) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto child = children_.find(key(node, text[i]));
      if (child == children_.end()) return;
      node = child->second;
      if (ids_[node] >= 0) use(i + 1, ids_[node]);
    }
  }

  std::size_t longest_prefix(std::string_view text) const {
    std::size_t longest = 0;
    for_each_prefix(text, [&](std::size_t length, int) { longest = length; });
    return longest;
  }

 private:
  static std::uint64_t key(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }

  std::vector<int> ids_{-1};  // by node
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
};

}  // namespace weft
