#include "weft/pipeline/token_data.h"

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft::pipeline {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 32;

std::uint64_t scrambled(std::uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

TokenData::TokenData(std::vector<int> tokens, std::int64_t sequence, std::uint64_t seed)
    : tokens_(std::move(tokens)), sequence_(sequence), seed_(seed) {
  if (std::ssize(tokens_) <= sequence)
    bad_input("the text has {} tokens, too few for one sequence of {} and its targets; give more text", tokens_.size(),
              sequence);
}

std::int64_t TokenData::offset(std::int64_t sample) const {
  const auto places = num(std::ssize(tokens_) - sequence_);
  return static_cast<std::int64_t>(scrambled(scrambled(seed_) + static_cast<std::uint64_t>(sample)) % places);
}

void TokenData::append(std::int64_t sample, std::vector<int>* inputs, std::vector<int>* targets) const {
  const auto begin = tokens_.begin() + offset(sample);
  inputs->insert(inputs->end(), begin, begin + sequence_);
  targets->insert(targets->end(), begin + 1, begin + sequence_ + 1);
}

std::vector<int> read_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& paths) {
  std::vector<int> tokens;
  for (const std::string& path : paths) {
    if (tokenizer.eos()) tokens.push_back(*tokenizer.eos());
    const std::vector<int> text = tokenizer.encode(read_text_file(path, kMostTextBytes));
    tokens.insert(tokens.end(), text.begin(), text.end());
  }
  return tokens;
}

}  // namespace weft::pipeline
