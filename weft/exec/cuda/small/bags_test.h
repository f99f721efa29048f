// Embedding bags for tests, with and without a GPU. Tables hold whole numbers, so that sums are exact in any order.
#pragma once

#include <random>
#include <vector>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/exec/bindings.h"
#include "weft/exec/ref/ref.h"

namespace weft::testing_cuda {

struct BagCase {
  std::int64_t tables, dim, batch;
  int ranks;
  int longest;  // bag
  std::vector<std::int64_t> tables_of = {};
  Pooling pooling = Pooling::sum;
  std::int64_t rows = 50;

  std::int64_t num_tables(int rank) const { return tables_of.empty() ? tables : tables_of[at(rank)]; }
};

inline Plan bag_plan_of(const BagCase& c, Route route = Route::direct) {
  const Producer p = embedding_bag({.tables = c.tables,
                                    .rows = c.rows,
                                    .dim = c.dim,
                                    .batch = c.batch,
                                    .tables_of = c.tables_of,
                                    .pooling = c.pooling});
  if (c.ranks == 1) return build(p, keep());
  SpaceOptions options;
  options.route = route;
  options.stack = Stack::columns;
  return build(p, all_to_all(Mesh({{"tp", c.ranks}}), "tp", options));
}

// One rank's tables and bags.
struct BagInputs {
  std::int64_t dim;
  std::vector<std::vector<float>> tables;
  std::vector<std::vector<std::int64_t>> indices, offsets;

  BagInputs(const BagCase& c, int rank, std::uint64_t seed) : dim(c.dim) {
    std::mt19937_64 random(seed * 131 + num(rank));
    for (std::int64_t t = 0; t < c.num_tables(rank); ++t) {
      auto& table = tables.emplace_back();
      for (std::int64_t i = 0; i < c.rows * c.dim; ++i)
        table.push_back(static_cast<float>(static_cast<int>(random() % 33) - 16));
      auto& index = indices.emplace_back();
      auto& offset = offsets.emplace_back(1, 0);
      for (std::int64_t b = 0; b < c.batch; ++b) {
        const int length = c.longest == 0 ? 0 : static_cast<int>(random() % num(c.longest + 1));
        for (int i = 0; i < length; ++i) index.push_back(static_cast<std::int64_t>(random() % num(c.rows)));
        offset.push_back(std::ssize(index));
      }
    }
  }
};

inline std::vector<std::vector<float>> bag_reference(const Plan& plan, const std::vector<BagInputs>& inputs) {
  RefExecutor ref(plan);
  std::vector<std::vector<const float*>> tables;
  std::vector<std::vector<const std::int64_t*>> indices, offsets;
  for (const BagInputs& in : inputs) {
    auto& t = tables.emplace_back();
    auto &i = indices.emplace_back(), &o = offsets.emplace_back();
    for (std::size_t k = 0; k < in.tables.size(); ++k)
      t.push_back(in.tables[k].data()), i.push_back(in.indices[k].data()), o.push_back(in.offsets[k].data());
  }
  std::vector<Bindings> bindings(inputs.size());
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    bindings[r].producers.resize(1);
    bindings[r].producers[0].tables = tables[r];
    bindings[r].producers[0].indices = indices[r], bindings[r].producers[0].offsets = offsets[r];
    bindings[r].buffers.assign(plan.buffers.size(), nullptr);
  }
  ref.run(bindings);
  std::vector<std::vector<float>> out;
  for (int r = 0; r < plan.num_ranks; ++r) out.push_back(ref.output(r));
  return out;
}

inline std::vector<BagCase> bag_cases() {
  return {{3, 8, 100, 1, 4},
          {2, 128, 256, 2, 1},
          {3, 12, 300, 3, 5, {}, Pooling::mean},
          {2, 64, 512, 4, 40},
          {3, 132, 130, 4, 3, {1, 3, 2, 2}},
          {1, 4, 7, 4, 9},
          {2, 16, 64, 8, 2}};
}

}  // namespace weft::testing_cuda
