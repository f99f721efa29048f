#include "weft/base/statistics.h"

#include <algorithm>
#include <cmath>

namespace weft {

double median(std::vector<double> values) {
  const auto middle = values.begin() + (values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double quantile(std::vector<double> values, double q) {
  const auto last = std::ssize(values) - 1;
  const auto at = values.begin() + std::min(last, static_cast<std::ptrdiff_t>(q * values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double geomean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / values.size());
}

double aa_band(const std::vector<double>& first, const std::vector<double>& second) {
  return std::abs(median(first) / median(second) - 1);
}

}  // namespace weft
