// The statistics of every table: medians, and geometric means of ratios.
#pragma once

#include <vector>

namespace weft::cli {

double median(std::vector<double> values);              // of at least one
double geomean(const std::vector<double>& values);      // of at least one, all above 0
double quantile(std::vector<double> values, double q);  // the value at that part of the sorted list, 0 to 1

}  // namespace weft::cli
