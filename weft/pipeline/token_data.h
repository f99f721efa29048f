// Text as a stream of tokens, and the samples that training takes from it. Sample i is a window whose place depends on
// the seed and on i alone: any mesh, any restart and any other program sees the same samples in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft {
class Tokenizer;
}

namespace weft::pipeline {

class TokenData {
 public:
  // Throws bad_input where there are not at least sequence + 1 tokens.
  TokenData(std::vector<int> tokens, std::int64_t sequence, std::uint64_t seed);

  std::int64_t num_tokens() const { return std::ssize(tokens_); }
  // Appends `sequence` tokens to each: those of the window, and those that follow each of them.
  void append(std::int64_t sample, std::vector<int>* inputs, std::vector<int>* targets) const;
  std::int64_t offset(std::int64_t sample) const;

 private:
  std::vector<int> tokens_;
  std::int64_t sequence_;
  std::uint64_t seed_;
};

// All files, one after the other, each behind the tokenizer's end-of-text where it has one.
std::vector<int> read_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& paths);

}  // namespace weft::pipeline
