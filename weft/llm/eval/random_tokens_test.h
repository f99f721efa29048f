// Tokens at random, the same for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace weft {

inline std::vector<int> random_tokens(std::size_t count, std::int64_t vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> tokens(count);
  for (int& token : tokens) token = static_cast<int>(random() % static_cast<unsigned>(vocab));
  return tokens;
}

}  // namespace weft
