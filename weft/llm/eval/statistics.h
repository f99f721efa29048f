// How sure an evaluation is of its numbers, and whether two configurations differ. Intervals are of 95 %. Everything is
// deterministic: bootstraps draw from a fixed seed, so every rank and every run print the same interval.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct Interval {
  double low = 0, high = 0;
};

// Of a share `right` of `items`, by Wilson's score: never outside [0, 1], right for few items too. No items: [0, 1].
Interval wilson(std::int64_t right, std::int64_t items);

// What one window of text gave: log-probabilities of its scored tokens, summed.
struct WindowScore {
  double log_probability = 0;
  std::int64_t tokens = 0;
};

double perplexity(std::span<const WindowScore> windows);  // exp(-mean log-probability of a token)

// By drawing windows with replacement: tokens of a window depend on each other, windows hardly. 2000 draws.
Interval perplexity_interval(std::span<const WindowScore> windows);

// Perplexity of `second` over that of `first` on the same windows, minus 1: above 0 where `second` is worse. Windows
// are drawn together for both, so what makes a window hard cancels. `p` is two-sided: how often draws fall on the other
// side of 0, at least 1/2000.
struct PairedLoss {
  double loss = 0;
  Interval interval;
  double p = 1;
};
PairedLoss paired_loss(std::span<const WindowScore> first, std::span<const WindowScore> second);

// Two configurations on the same items: McNemar's exact test asks whether the items that only one of them has right are
// split evenly. The difference of accuracies (second minus first) has the interval of Bonett and Price.
struct PairedAccuracy {
  std::int64_t items = 0;
  std::int64_t only_first = 0, only_second = 0;  // right by one alone
  double difference = 0;
  Interval interval;
  double p = 1;
};
PairedAccuracy paired_accuracy(const std::vector<bool>& first, const std::vector<bool>& second);

double mcnemar_exact(std::int64_t only_first, std::int64_t only_second);  // two-sided p

}  // namespace weft
