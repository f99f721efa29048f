#include "weft/llm/eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr double kNormal = 1.959963984540054;  // 97.5 % of a normal distribution lie below
constexpr int kDraws = 2000;
constexpr std::uint64_t kSeed = 20250713;

// The 2.5 % and 97.5 % quantiles of the draws.
Interval middle(std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  const auto at = [&](double share) { return draws[static_cast<std::size_t>(share * (draws.size() - 1) + 0.5)]; };
  return {at(0.025), at(0.975)};
}

// Calls use(sums) for every draw, where sums are the totals of a resample of the windows of each of several runs.
template <typename Use>
void for_each_draw(std::span<const std::span<const WindowScore>> runs, Use use) {
  const std::size_t windows = runs[0].size();
  std::mt19937_64 random(kSeed);
  std::vector<WindowScore> sums(runs.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    std::fill(sums.begin(), sums.end(), WindowScore{});
    for (std::size_t i = 0; i < windows; ++i) {
      const std::size_t at = random() % windows;
      for (std::size_t run = 0; run < runs.size(); ++run) {
        sums[run].log_probability += runs[run][at].log_probability;
        sums[run].tokens += runs[run][at].tokens;
      }
    }
    use(sums);
  }
}

double perplexity_of(const WindowScore& sum) { return std::exp(-sum.log_probability / sum.tokens); }

}  // namespace

Interval wilson(std::int64_t right, std::int64_t items) {
  if (items <= 0) return {0, 1};
  const double n = items;
  const double p = right / n, z2 = kNormal * kNormal;
  const double center = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n);
  return {std::max(0.0, center - half), std::min(1.0, center + half)};
}

double perplexity(std::span<const WindowScore> windows) {
  WindowScore sum;
  for (const WindowScore& window : windows) {
    sum.log_probability += window.log_probability;
    sum.tokens += window.tokens;
  }
  if (sum.tokens == 0) bad_input("no token was scored; give a text of at least one window");
  return perplexity_of(sum);
}

Interval perplexity_interval(std::span<const WindowScore> windows) {
  if (windows.empty()) bad_input("no window was scored; give a text of at least one window");
  std::vector<double> draws;
  const std::span<const WindowScore> runs[] = {windows};
  for_each_draw(runs, [&](const std::vector<WindowScore>& sums) { draws.push_back(perplexity_of(sums[0])); });
  return middle(std::move(draws));
}

PairedLoss paired_loss(std::span<const WindowScore> first, std::span<const WindowScore> second) {
  if (first.size() != second.size() || first.empty())
    bad_input("{} and {} windows cannot be paired; evaluate both on the same text and window", first.size(),
              second.size());
  PairedLoss result;
  result.loss = perplexity(second) / perplexity(first) - 1;
  std::vector<double> draws;
  const std::span<const WindowScore> runs[] = {first, second};
  for_each_draw(runs, [&](const std::vector<WindowScore>& sums) {
    draws.push_back(perplexity_of(sums[1]) / perplexity_of(sums[0]) - 1);
  });
  const auto below = std::count_if(draws.begin(), draws.end(), [](double d) { return d <= 0; });
  const auto above = std::count_if(draws.begin(), draws.end(), [](double d) { return d >= 0; });
  const double other_side = std::max<std::ptrdiff_t>(1, std::min(below, above));
  result.p = std::min(1.0, 2 * other_side / kDraws);
  result.interval = middle(std::move(draws));
  return result;
}

double mcnemar_exact(std::int64_t only_first, std::int64_t only_second) {
  const std::int64_t n = only_first + only_second, least = std::min(only_first, only_second);
  double tail = 0;  // P(X <= least) for n fair coins
  // Not std::lgamma: it writes the sign to a global, and ranks may be threads.
  const auto ln_factorial = [](std::int64_t k) {
    int sign = 0;
    return lgamma_r(static_cast<double>(k) + 1, &sign);
  };
  for (std::int64_t k = 0; k <= least; ++k)
    tail += std::exp(ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k) - static_cast<double>(n) * std::log(2.0));
  return std::min(1.0, 2 * tail);
}

PairedAccuracy paired_accuracy(const std::vector<bool>& first, const std::vector<bool>& second) {
  if (first.size() != second.size() || first.empty())
    bad_input("{} and {} items cannot be paired; evaluate both on the same tasks", first.size(), second.size());
  PairedAccuracy result;
  result.items = std::ssize(first);
  for (std::size_t i = 0; i < first.size(); ++i) {
    result.only_first += first[i] && !second[i];
    result.only_second += second[i] && !first[i];
  }
  const double n = result.items;
  result.difference = (result.only_second - result.only_first) / n;
  const double b = static_cast<double>(result.only_first + 1) / (n + 2);
  const double c = static_cast<double>(result.only_second + 1) / (n + 2);
  const double half = kNormal * std::sqrt((b + c - (c - b) * (c - b)) / (n + 2));
  result.interval = {std::max(-1.0, c - b - half), std::min(1.0, c - b + half)};
  result.p = mcnemar_exact(result.only_first, result.only_second);
  return result;
}

}  // namespace weft
