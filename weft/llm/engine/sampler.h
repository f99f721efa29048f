// Which token comes next. Given the same logits, options and step every rank picks the same token: the random numbers
// are a function of seed, sequence and step, and nothing is kept between picks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct SamplerOptions {
  double temperature = 0;  // 0: greedy
  int top_k = 0;           // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together have at least this probability
  std::uint64_t seed = 0;
};

// Throws bad_input naming the option that is out of range.
void check_sampler(const SamplerOptions& options);

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);

  bool is_greedy() const { return options_.temperature == 0; }
  // Temperature first, then top_k, then top_p of what is left, as Hugging Face has it. Equal logits rank by token.
  int pick(std::span<const float> logits, int sequence, std::int64_t step);

 private:
  std::size_t most_probable(std::span<const float> logits);

  SamplerOptions options_;
  std::vector<int> order_;  // tokens; the first most_probable() of them sorted
};

}  // namespace weft
