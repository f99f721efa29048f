// What the parts of kernel_floor share: rounds in which contestants take turns, weights that rotate, and one table.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/world/world.h"

namespace weft::bench {

struct Options {
  int rounds = 15;
  std::string only;  // a part's name: gemm, gemv or embedding_bag; empty: all
};

struct Row {
  std::string part, shape;
  double weft = 0, floor = 0;  // GF/s for gemm, GB/s for the rest
  std::string note;
};

// Medians of the seconds that each contestant takes, in turns: a, b, c, a, b, c, ... A turn of less than a quarter
// millisecond is made of as many calls as fill one.
std::vector<double> medians(int rounds, const std::vector<std::function<void()>>& contestants);

// Seconds of one call of each.
std::vector<double> turns(const std::vector<std::function<void()>>& contestants);

// One of several copies after another, so that none is still cached when its turn comes again.
class Rotated {
 public:
  explicit Rotated(std::int64_t floats);
  const float* next() { return data_.data() + turn_++ % copies_ * floats_; }
  const float* copy(std::int64_t i) const { return data_.data() + i * floats_; }
  std::int64_t copies() const { return copies_; }

 private:
  std::int64_t floats_, copies_, turn_ = 0;
  std::vector<float> data_;
};

std::vector<float> values(std::int64_t count);  // in [-1, 1), the same every time

void run_gemm(World& world, const Options& options, std::vector<Row>* rows);
void run_gemv(World& world, const Options& options, std::vector<Row>* rows);
void run_embedding_bag(World& world, const Options& options, std::vector<Row>* rows);

}  // namespace weft::bench
