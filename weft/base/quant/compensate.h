// Rounding a matrix so that its products stay near, rather than its values. What counts is the error of x . w^T over
// the inputs x that the matrix will meet; with G the sum of x^T x, that is (w - v) G (w - v)^T for each row w and its
// rounded v. Columns are rounded in order, and what each one loses is made up for by those that follow, as well as G
// allows: with U^T U the inverse of G, U upper triangular, column j's error e moves column i by -e U[j][i] / U[j][j]
// (GPTQ, Frantar et al. 2022). Afterwards each integer is looked at again, all others given, a few times over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/dtype.h"

namespace weft {

class Compensation {
 public:
  // `gram`: (k, k), symmetric, of the inputs. A hundredth of its mean diagonal is added to the diagonal, so that
  // inputs that were never seen count as well. bad_input where it has a value that is not finite.
  Compensation(std::int64_t k, std::span<const float> gram);

  std::int64_t k() const { return k_; }
  // Rows of k values, whole blocks of the format, to blocks. Any threads at once. bad_input as quantise().
  void quantise(Dtype dtype, std::int64_t rows, const float* values, std::byte* out) const;
  // (w - v) G (w - v)^T, summed over rows: what quantise() makes small.
  double loss(std::int64_t rows, const float* values, const float* rounded) const;

 private:
  void round_row(Dtype dtype, const float* values, std::byte* out) const;
  const float* gram_row(std::int64_t j) const { return gram_.data() + j * k_; }

  std::int64_t k_;
  std::vector<float> gram_;        // (k, k), damped
  std::vector<float> factor_;      // (k, k): U
  std::vector<float> importance_;  // (k): of a column's error when those behind it make up for it
};

}  // namespace weft
