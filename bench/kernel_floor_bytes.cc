// gemv and embedding_bag, which are bound by what they read: beside a loop that reads as many bytes and only adds them
// up. For gemv those are the same weights; for embedding_bag, whose rows lie anywhere, a stream of equal length, which
// no random access can beat.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"

#include "bench/kernel_floor.h"

namespace weft::bench {
namespace {

typedef float Vec __attribute__((vector_size(32), aligned(4)));
volatile float g_sink;  // keeps the reading loop alive

void read_floats(const float* data, std::int64_t count) {
  Vec sums[8] = {};
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64)
    for (int v = 0; v < 8; ++v) sums[v] += *reinterpret_cast<const Vec*>(data + i + v * 8);
  float total = 0;
  for (; i < count; ++i) total += data[i];
  for (const Vec& sum : sums)
    for (int l = 0; l < 8; ++l) total += sum[l];
  g_sink = total;
}

Row measure_gemv(World& world, std::int64_t n, std::int64_t k, int rounds) {
  const std::vector<float> x = values(k);
  Rotated w(n * k), same(n * k);
  Op op = world.compile(gemv({.n = n, .k = k}), keep());
  const auto times = medians(rounds, {[&] {
                                        op.run(x.data(), w.next());
                                        op.output();
                                      },
                                      [&] { read_floats(same.next(), n * k); }});
  const float* y = op.output().data;
  for (std::int64_t j = 0; j < n; ++j) {
    double exact = 0;
    for (std::int64_t p = 0; p < k; ++p) exact += static_cast<double>(w.copy(0)[j * k + p]) * x[p];
    if (!(std::abs(y[j] - exact) <= 1e-6 * static_cast<double>(k + 1)))
      fail(Code::internal, "gemv {}x{} gives {} at {}, not {}", n, k, y[j], j, exact);
  }
  const double gb = 4e-9 * static_cast<double>(n * k);
  return {"gemv", fmt::format("n {} k {}", n, k), gb / times[0], gb / times[1],
          fmt::format("GB/s, read loop ({:.1f} us a run)", times[0] * 1e6)};
}

struct Bags {
  std::vector<std::unique_ptr<float[], void (*)(void*)>> tables;  // on 64-byte boundaries, as frameworks keep them
  std::vector<std::vector<std::int64_t>> indices;
  std::vector<std::int64_t> offsets;
  std::vector<const float*> table_pointers;
  std::vector<const std::int64_t*> index_pointers, offset_pointers;

  Bags(std::int64_t num_tables, std::int64_t num_rows, std::int64_t dim, std::int64_t batch, std::int64_t pooling) {
    const std::vector<float> one = values(num_rows * dim);
    for (std::int64_t b = 0; b <= batch; ++b) offsets.push_back(b * pooling);
    for (std::int64_t t = 0; t < num_tables; ++t) {
      auto* table = static_cast<float*>(std::aligned_alloc(64, one.size() * sizeof(float)));
      if (table == nullptr) fail(Code::no_memory, "no memory for a table of {} floats", one.size());
      std::copy(one.begin(), one.end(), table);
      tables.emplace_back(table, std::free);
      indices.emplace_back(num(batch * pooling));
    }
    for (std::int64_t t = 0; t < num_tables; ++t) {
      table_pointers.push_back(tables[at(t)].get());
      index_pointers.push_back(indices[at(t)].data());
      offset_pointers.push_back(offsets.data());
    }
  }
  void refresh(std::int64_t num_rows) {  // uniform
    for (auto& list : indices)
      for (std::int64_t& index : list) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        index = static_cast<std::int64_t>((state_ >> 33) % static_cast<std::uint64_t>(num_rows));
      }
  }
  Inputs inputs() const {
    Inputs in;
    in.tables = table_pointers;
    in.indices = index_pointers;
    in.offsets = offset_pointers;
    return in;
  }

 private:
  std::uint64_t state_ = 1;
};

void check(const Bags& bags, std::int64_t dim, const Matrix& y) {
  for (std::int64_t b = 0; b < y.rows; b += 97)
    for (std::int64_t j = 0; j < y.cols; j += 13) {
      const auto table = num(j / dim);
      double exact = 0;
      for (std::int64_t i = bags.offsets[at(b)]; i < bags.offsets[at(b + 1)]; ++i)
        exact += bags.tables[table][at(bags.indices[table][at(i)] * dim + j % dim)];
      if (!(std::abs(y.row(b)[j] - exact) <= 1e-4))
        fail(Code::internal, "embedding_bag gives {} at {}, {}, not {}", y.row(b)[j], b, j, exact);
    }
}

Row measure_bags(World& world, std::int64_t dim, std::int64_t pooling, int rounds) {
  constexpr std::int64_t kBatch = 2048, kRows = 100000;
  const std::int64_t num_tables = 256 / dim;  // 102 MB in all
  Bags bags(num_tables, kRows, dim, kBatch, pooling);
  Op op = world.compile(embedding_bag({.tables = num_tables, .rows = kRows, .dim = dim, .batch = kBatch}), keep());
  const std::int64_t floats = kBatch * pooling * dim * num_tables;
  Rotated stream(floats);
  // Fresh indices before each run, outside the time: a run that follows itself would find its rows cached.
  std::vector<double> pooled, read;
  for (int i = 0; i <= rounds; ++i) {
    bags.refresh(kRows);
    const auto times = turns({[&] {
                                op.run(bags.inputs());
                                op.output();
                              },
                              [&] { read_floats(stream.next(), floats); }});
    if (i == 0) continue;  // warmed up
    pooled.push_back(times[0]);
    read.push_back(times[1]);
  }
  check(bags, dim, op.output());
  const double gb = 4e-9 * static_cast<double>(floats);
  return {"embedding_bag", fmt::format("{} tables, dim {}, pooling {}", num_tables, dim, pooling), gb / median(pooled),
          gb / median(read), "GB/s of rows, read loop"};
}

}  // namespace

void run_gemv(World& world, const Options& options, std::vector<Row>* rows) {
  for (const std::int64_t n : {256, 1024, 4096})
    for (const std::int64_t k : {64, 256, 1024, 4096}) rows->push_back(measure_gemv(world, n, k, options.rounds));
}

void run_embedding_bag(World& world, const Options& options, std::vector<Row>* rows) {
  for (const std::int64_t dim : {64, 128})
    for (const std::int64_t pooling : {1, 4, 20, 100})
      rows->push_back(measure_bags(world, dim, pooling, options.rounds));
}

}  // namespace weft::bench
