// A recommendation model's lookup: every rank holds some of the tables and pools them for the whole batch; then every
// rank needs all tables for its part of the batch. The pooled vectors go straight to the rank that needs them.
//
//   weft run -n 2 -- 03_embedding_all_to_all
#include <cstdint>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kTables = 3, kRows = 50, kDim = 8, kBatch = 96, kPooling = 4;

float cell(int rank, std::int64_t table, std::int64_t row, std::int64_t d) {
  return static_cast<float>((rank * 11 + table * 7 + row * 3 + d) % 13);
}
std::int64_t index_at(int rank, std::int64_t table, std::int64_t sample, std::int64_t i) {
  return (rank + 5 * table + 3 * sample + 17 * i) % kRows;
}

float expected(int rank, std::int64_t table, std::int64_t sample, std::int64_t d) {
  float sum = 0;
  for (std::int64_t i = 0; i < kPooling; ++i) sum += cell(rank, table, index_at(rank, table, sample, i), d);
  return sum;
}

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  const weft::Mesh mesh = world.mesh({{"ranks", world.size()}});
  weft::Op op = world.compile(weft::embedding_bag({.tables = kTables, .rows = kRows, .dim = kDim, .batch = kBatch}),
                              weft::all_to_all(mesh, "ranks", {.stack = weft::Stack::columns}));

  std::vector<std::vector<float>> tables(kTables);
  std::vector<std::vector<std::int64_t>> indices(kTables);
  std::vector<std::int64_t> offsets;
  for (std::int64_t b = 0; b <= kBatch; ++b) offsets.push_back(b * kPooling);
  std::vector<const float*> table_pointers;
  std::vector<const std::int64_t*> index_pointers, offset_pointers(kTables, offsets.data());
  for (std::int64_t t = 0; t < kTables; ++t) {
    for (std::int64_t i = 0; i < kRows * kDim; ++i) tables[t].push_back(cell(world.rank(), t, i / kDim, i % kDim));
    for (std::int64_t i = 0; i < kBatch * kPooling; ++i)
      indices[t].push_back(index_at(world.rank(), t, i / kPooling, i % kPooling));
    table_pointers.push_back(tables[t].data());
    index_pointers.push_back(indices[t].data());
  }
  weft::Inputs inputs;
  inputs.tables = table_pointers, inputs.indices = index_pointers, inputs.offsets = offset_pointers;
  op.run(inputs);
  const weft::Matrix y = op.output();  // my samples x all ranks' tables

  const std::int64_t begin = weft::cut(kBatch, world.size(), world.rank()), width = kTables * kDim;
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j)
      if (y.row(i)[j] != expected(static_cast<int>(j / width), j % width / kDim, begin + i, j % kDim))
        return std::fprintf(stderr, "rank %d: sample %ld is wrong\n", world.rank(), static_cast<long>(begin + i)), 1;
  if (world.rank() == 0)
    std::printf("ok %d ranks, %ld samples x %ld columns here\n", world.size(), static_cast<long>(y.rows),
                static_cast<long>(y.cols));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const weft::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), error.code() == weft::Code::bad_input ? 2 : 1;
  }
}
