// How quickly partial sums become int8 blocks and floats again (weft/kernel/rows/variant_blocks.inc), one thread, tiles
// of 64 x 64 that stay in the cache, and rows that do not: GB of f32 values a second, the best of many turns. At 10
// Gbit/s a link takes 1.25 GB/s; what the kernels take beside it is what int8 costs.
//   cmake --build --preset release --target int8_rate && build/bench/int8_rate
#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/kernel/rows/sum.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

template <typename F>
double best_gbps(std::int64_t values, F&& f) {
  double best = 1e9;
  for (int turn = 0; turn < 30; ++turn) {
    const int times = static_cast<int>(std::max<std::int64_t>(1, (1 << 22) / values));
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) f();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / times);
  }
  return static_cast<double>(values) * 4 / best * 1e-9;
}

void measure(Isa isa, std::int64_t rows, std::int64_t cols) {
  const std::int64_t values = rows * cols;
  std::vector<float> x(num(values)), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<std::int64_t>(i * 7919 % 2003) - 1001);
  std::vector<char> blocks(num(rows * row_bytes(Dtype::int8, cols)));
  std::vector<bf16> halves(x.size());
  const Variant& v = variant(isa);
  const ConstStrip from{x.data(), cols, Dtype::f32}, narrow{blocks.data(), cols, Dtype::int8};
  const ConstStrip four[]{narrow, narrow, narrow, from};
  const double quantise = best_gbps(values, [&] { v.sum(rows, cols, {&from, 1}, {blocks.data(), cols, Dtype::int8}); });
  const double widen = best_gbps(values, [&] { v.sum(rows, cols, {&narrow, 1}, {y.data(), cols, Dtype::f32}); });
  const double sum = best_gbps(values, [&] { v.sum(rows, cols, {four, 4}, {y.data(), cols, Dtype::f32}); });
  const double half = best_gbps(values, [&] { v.sum(rows, cols, {&from, 1}, {halves.data(), cols, Dtype::bf16}); });
  fmt::print(
      "{:9} {:5} x {:4}  to int8 {:5.1f}  from int8 {:5.1f}  3 int8 + f32 {:5.1f}  (to bf16 {:5.1f})  GB/s of f32\n",
      to_string(isa), rows, cols, quantise, widen, sum, half);
}

}  // namespace
}  // namespace weft

int main() {
  for (const weft::Isa isa : weft::reachable_isas())
    for (const auto& [rows, cols] : {std::pair{64, 64}, {64, 4096}, {4096, 4096}}) weft::measure(isa, rows, cols);
}
