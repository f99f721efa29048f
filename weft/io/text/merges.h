// Byte-pair encoding: a list of pairs of tokens, each with the token that it becomes. The pair that comes first in
// the list is merged first, the leftmost of equal ones, until no pair of the list is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace weft {

class Merges {
 public:
  void reserve(std::size_t count) { pairs_.reserve(count); }
  void add(int left, int right, int merged);  // after all pairs added before

  // Replaces the tokens by what is left of them. Takes n log n steps for n tokens whatever the list is (a heap of the
  // pairs that can be merged), so a megabyte without a space is no attack.
  void apply(std::vector<int>& tokens) const;

 private:
  struct Merge {
    int rank, merged;
  };
  struct Symbol;
  struct Candidate;
  class Run;

  static std::uint64_t key(int left, int right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  const Merge* find(int left, int right) const {
    const auto found = pairs_.find(key(left, right));
    return found == pairs_.end() ? nullptr : &found->second;
  }

  int count_ = 0;
  std::unordered_map<std::uint64_t, Merge> pairs_;
};

}  // namespace weft
