#include "cli/median.h"

#include <algorithm>
#include <cmath>

#include "weft/base/index.h"

namespace weft::cli {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double geomean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[at(q * static_cast<double>(values.size() - 1))];
}

}  // namespace weft::cli
