#include "weft/base/quant/compensate.h"

#include <array>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/quant/grid.h"

namespace weft {
namespace {

constexpr double kDamping = 0.01;
constexpr int kSweeps = 4;

template <typename T>
void subtract_scaled(T by, const T* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] -= by * from[i];
}

// a = M M^T with M upper triangular; M^T takes the lower half of a.
void factor_in_place(std::int64_t k, std::vector<double>& a) {
  for (std::int64_t j = k - 1; j >= 0; --j) {
    double* row = a.data() + j * k;
    const double pivot = std::sqrt(std::max(row[j], 1e-30));
    row[j] = pivot;
    for (std::int64_t i = 0; i < j; ++i) row[i] /= pivot;
    for (std::int64_t i = 0; i < j; ++i) subtract_scaled(row[i], row, i + 1, a.data() + i * k);
  }
}

// The inverse of M, whose transpose is in the lower half of a.
std::vector<float> inverse_factor(std::int64_t k, const std::vector<double>& a) {
  std::vector<double> out(num(k * k));
  for (std::int64_t i = k - 1; i >= 0; --i) {
    double* row = out.data() + i * k;
    row[i] = 1;
    for (std::int64_t l = i + 1; l < k; ++l) subtract_scaled(a[at(l * k + i)], out.data() + l * k + l, k - l, row + l);
    for (std::int64_t l = i; l < k; ++l) row[l] /= a[at(i * k + i)];
  }
  return {out.begin(), out.end()};
}

}  // namespace

Compensation::Compensation(std::int64_t k, std::span<const float> gram) : k_(k), gram_(gram.begin(), gram.end()) {
  if (k < 1 || std::ssize(gram) != k * k) bad_input("{} values for a matrix of {} x {}", gram.size(), k, k);
  double trace = 0;
  for (const float value : gram)
    if (!std::isfinite(value)) bad_input("a sum of products of inputs is {}; is the model whole?", value);
  for (std::int64_t j = 0; j < k; ++j) trace += gram_[at(j * k + j)];
  const double damping = trace > 0 ? kDamping * trace / static_cast<double>(k) : 1;
  for (std::int64_t j = 0; j < k; ++j) gram_[at(j * k + j)] += static_cast<float>(damping);
  std::vector<double> a(gram_.begin(), gram_.end());
  factor_in_place(k, a);
  factor_ = inverse_factor(k, a);
  for (std::int64_t j = 0; j < k; ++j) {
    const double pivot = a[at(j * k + j)];
    importance_.push_back(static_cast<float>(pivot * pivot));
  }
}

void Compensation::quantise(Dtype dtype, std::int64_t rows, const float* values, std::byte* out) const {
  if (!is_blocked(dtype)) bad_input("{} is no format of blocks; use q8_0, q4_0, q4_k or q6_k", to_string(dtype));
  if (k_ % block_shape(dtype).values != 0)
    bad_input("{} values are no whole number of {} blocks of {}; use another format", k_, to_string(dtype),
              block_shape(dtype).values);
  for (std::int64_t i = 0; i < rows * k_; ++i)
    if (!std::isfinite(values[i])) bad_input("value {} is {}; weights in blocks are finite", i, values[i]);
  for (std::int64_t r = 0; r < rows; ++r) round_row(dtype, values + r * k_, out + r * row_bytes(dtype, k_));
}

void Compensation::round_row(Dtype dtype, const float* values, std::byte* out) const {
  const DtypeBlock shape = block_shape(dtype);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out);
  std::vector<float> w(values, values + k_), off(num(k_));  // off: rounded less the row's own value
  std::vector<int> q(num(k_));
  std::vector<BlockGrid> grids;
  for (std::int64_t j = 0; j < k_; ++j) {
    const std::int64_t block = j / shape.values, within = j % shape.values;
    if (within == 0)
      grids.push_back(choose_grid(dtype, w.data() + j, importance_.data() + j, bytes + block * shape.bytes));
    q[at(j)] = grids.back().nearest(within, w[at(j)]);
    const float rounded = grids.back().value(within, q[at(j)]);
    off[at(j)] = rounded - values[j];
    const float* row = factor_.data() + j * k_;
    subtract_scaled((w[at(j)] - rounded) / row[j], row + j + 1, k_ - j - 1, w.data() + j + 1);
  }
  std::vector<float> slope(num(k_));  // off . G
  for (std::int64_t j = 0; j < k_; ++j) subtract_scaled(-off[at(j)], gram_row(j), k_, slope.data());
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool changed = false;
    for (std::int64_t j = 0; j < k_; ++j) {
      const std::int64_t within = j % shape.values;
      const BlockGrid& grid = grids[at(j / shape.values)];
      const float now = values[j] + off[at(j)];
      const int better = grid.nearest(within, now - slope[at(j)] / gram_row(j)[j]);
      if (better == q[at(j)]) continue;
      const float moved = grid.value(within, better) - grid.value(within, q[at(j)]);
      q[at(j)] = better, off[at(j)] += moved, changed = true;
      subtract_scaled(-moved, gram_row(j), k_, slope.data());
    }
    if (!changed) break;
  }
  for (std::int64_t b = 0; b < std::ssize(grids); ++b)
    put_integers(dtype, q.data() + b * shape.values, bytes + b * shape.bytes);
}

double Compensation::loss(std::int64_t rows, const float* values, const float* rounded) const {
  double sum = 0;
  std::vector<float> off(num(k_));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < k_; ++j) off[at(j)] = rounded[r * k_ + j] - values[r * k_ + j];
    for (std::int64_t i = 0; i < k_; ++i) {
      double product = 0;
      for (std::int64_t j = 0; j < k_; ++j) product += double{gram_row(i)[j]} * off[at(j)];
      sum += off[at(i)] * product;
    }
  }
  return sum;
}

}  // namespace weft
