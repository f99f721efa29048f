// Ranks as digits, the first the slowest: rank 13 of 4 x 8 is (1, 5). Adding digit by digit, each modulo its size, is
// the renumbering under which plans and networks can be symmetric: one digit of N is a ring's, a digit per dimension a
// torus's, digits of 2 that of halving and doubling.
#pragma once

#include <vector>

#include "weft/base/index.h"

namespace weft::netsim {

class Digits {
 public:
  Digits() = default;
  explicit Digits(std::vector<int> sizes) : sizes_(std::move(sizes)), strides_(sizes_.size()) {
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      strides_[d] = count_;
      count_ *= sizes_[d];
      if (sizes_[d] != 2) is_binary_ = false;
    }
  }

  int count() const { return count_; }
  int num() const { return int_size(sizes_); }
  int size(int d) const { return sizes_[at(d)]; }
  int stride(int d) const { return strides_[at(d)]; }
  int digit(int rank, int d) const { return rank / strides_[at(d)] % sizes_[at(d)]; }

  int add(int rank, int other) const {
    if (is_binary_) return rank ^ other;
    if (sizes_.size() == 1) return rank + other < count_ ? rank + other : rank + other - count_;
    int sum = 0;
    for (int d = 0; d < num(); ++d) sum += (digit(rank, d) + digit(other, d)) % size(d) * stride(d);
    return sum;
  }
  int negative(int rank) const {
    int sum = 0;
    for (int d = 0; d < num(); ++d) sum += (size(d) - digit(rank, d)) % size(d) * stride(d);
    return sum;
  }

 private:
  std::vector<int> sizes_, strides_;
  int count_ = 1;
  bool is_binary_ = true;
};

}  // namespace weft::netsim
