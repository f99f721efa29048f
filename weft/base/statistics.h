// The statistics of every table: medians and other quantiles, and geometric means of ratios. Defined once, here.
#pragma once

#include <vector>

namespace weft {

double median(std::vector<double> values);  // of at least one; of an even number the mean of the middle two
double quantile(std::vector<double> values,
                double q);                          // of at least one: the value that a part q of the others is below
double geomean(const std::vector<double>& values);  // of at least one, all above 0

// |a / b - 1| of the medians of the same thing measured twice: what a difference must exceed to mean anything.
double aa_band(const std::vector<double>& first, const std::vector<double>& second);

}  // namespace weft
