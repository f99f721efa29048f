#include "weft/llm/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::size_t kFirstSorted = 256;

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In [0, 1).
double uniform(std::uint64_t seed, int sequence, std::int64_t step) {
  const std::uint64_t bits =
      mixed(mixed(mixed(seed) ^ static_cast<std::uint64_t>(sequence)) ^ static_cast<std::uint64_t>(step));
  return (bits >> 11) * 0x1p-53;
}

}  // namespace

void check_sampler(const SamplerOptions& o) {
  if (!(o.temperature >= 0) || o.temperature > 1000) bad_input("temperature is {}; use 0 to 1000", o.temperature);
  if (o.top_k < 0) bad_input("top-k is {}; use a number of tokens, or 0 for all", o.top_k);
  if (!(o.top_p > 0) || o.top_p > 1) bad_input("top-p is {}; use a probability above 0, up to 1", o.top_p);
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) { check_sampler(options); }

// Sorts the tokens that may be picked to the front, and says how many they are. A whole vocabulary is sorted only where
// the probability asked for is spread over it.
std::size_t Sampler::most_probable(std::span<const float> logits) {
  const std::size_t all = logits.size();
  order_.resize(all);
  std::iota(order_.begin(), order_.end(), 0);
  const std::size_t most = options_.top_k > 0 ? std::min(all, num(options_.top_k)) : all;
  if (most == all && options_.top_p >= 1) return all;
  const auto before = [&](int a, int b) {
    const float x = logits[at(a)], y = logits[at(b)];
    return x > y || (x == y && a < b);
  };
  const double top = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](int token) { return std::exp((logits[at(token)] - top) / options_.temperature); };
  if (options_.top_p >= 1) {
    std::partial_sort(order_.begin(), order_.begin() + most, order_.end(), before);
    return most;
  }
  double total = 0;
  if (most < all) {
    std::partial_sort(order_.begin(), order_.begin() + most, order_.end(), before);
    for (std::size_t i = 0; i < most; ++i) total += weight(order_[i]);
  } else {
    for (std::size_t i = 0; i < all; ++i) total += weight(static_cast<int>(i));
  }
  double sum = 0;
  std::size_t sorted = most < all ? most : 0;
  for (std::size_t i = 0; i < most; ++i) {
    if (i == sorted) {
      sorted = std::min(most, std::max(kFirstSorted, sorted * 4));
      std::partial_sort(order_.begin() + i, order_.begin() + sorted, order_.end(), before);
    }
    sum += weight(order_[i]);
    if (sum >= options_.top_p * total) return i + 1;
  }
  return most;
}

int Sampler::pick(std::span<const float> logits, int sequence, std::int64_t step) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (is_greedy()) return static_cast<int>(largest - logits.begin());
  const std::size_t count = most_probable(logits);
  const double top = *largest;
  const auto weight = [&](std::size_t i) { return std::exp((logits[at(order_[i])] - top) / options_.temperature); };
  double total = 0;
  for (std::size_t i = 0; i < count; ++i) total += weight(i);
  double left = uniform(options_.seed, sequence, step) * total;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    left -= weight(i);
    if (left < 0) return order_[i];
  }
  return order_[count - 1];
}

}  // namespace weft
