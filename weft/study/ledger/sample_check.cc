#include "weft/study/ledger/sample_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/mesh/box.h"
#include "weft/study/input/values.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::size_t kSamples = 16;  // of every rank and part
constexpr double kMissing = std::numeric_limits<double>::infinity();

// Element (i, j) of what this rank makes itself.
double made(const MeasuredPart& part, std::int64_t i, std::int64_t j) {
  const Producer& p = part.spec().producer;
  const Inputs& in = part.last_inputs();
  double sum = 0;
  if (p.kind == ProducerKind::embedding_bag) {
    const auto t = num(j / p.dim);
    for (std::int64_t q = in.offsets[t][i]; q < in.offsets[t][i + 1]; ++q)
      sum += in.tables[t][in.indices[t][q] * p.dim + j % p.dim];
    return sum;
  }
  const auto* w = static_cast<const float*>(in.w);
  for (std::int64_t q = 0; q < p.k; ++q)
    sum += static_cast<double>(in.x[i * p.k + q]) * static_cast<double>(w[q * p.n + j]);
  return sum;
}

double value_in(const Result& result, std::int64_t row, std::int64_t col) {
  for (const Placed& p : result)
    if (row >= p.row && row < p.row + p.values.rows && col >= p.col && col < p.col + p.values.cols)
      return static_cast<double>(p.values.row(row - p.row)[col - p.col]);
  return kMissing;
}

int owner_of(std::int64_t row, std::int64_t m, int ranks) {
  int owner = 0;
  while (cut(m, ranks, owner + 1) <= row) ++owner;
  return owner;
}

}  // namespace

double rounding_of(std::int64_t terms) { return 1e-6 * std::sqrt(std::max<std::int64_t>(terms, 16)); }

SampleCheck::SampleCheck(World& world)
    : world_(world),
      gather_(world.compile(copy({.rows = 1, .cols = 2 * kSamples}),
                            all_gather(world.mesh({{"all", world.size()}}), "all"))),
      room_(2 * kSamples) {}

// A double travels as two floats: 48 bits of it.
std::vector<double> SampleCheck::told_by_all(const std::vector<double>& mine) {
  for (std::size_t s = 0; s < kSamples; ++s) {
    room_[2 * s] = static_cast<float>(mine[s]);
    room_[2 * s + 1] = static_cast<float>(mine[s] - static_cast<double>(room_[2 * s]));
  }
  gather_.run(room_.data());
  const Matrix all = gather_.output();
  std::vector<double> out;
  for (std::int64_t i = 0; i < all.rows * all.cols; i += 2)
    out.push_back(static_cast<double>(all.data[i]) + static_cast<double>(all.data[i + 1]));
  return out;
}

// Sums have the same sample on all ranks; of an exchange every source has its own.
double SampleCheck::error_of(const MeasuredPart& part, std::uint64_t seed) {
  const Producer& p = part.spec().producer;
  const SpaceKind kind = part.spec().space.kind;
  const bool exchange = kind == SpaceKind::all_to_all;
  const int ranks = world_.size(), rank = world_.rank();
  const auto sample = [&](int source, std::size_t s) {
    const std::uint64_t stream = stream_of(Input::x, exchange ? source : 0, seed, s);
    return Sample{index_at(stream, 0, p.m), index_at(stream, 1, p.columns(source))};
  };
  std::vector<double> mine;
  for (std::size_t s = 0; s < kSamples; ++s) mine.push_back(made(part, sample(rank, s).row, sample(rank, s).col));
  const std::vector<double> told = told_by_all(mine);
  double worst = 0, largest = 0;
  std::int64_t first_col = 0;  // of a source's columns where they are set side by side
  for (int source = 0; source < (exchange ? ranks : 1); ++source) {
    const std::int64_t begin = cut(p.m, ranks, rank), part_rows = cut(p.m, ranks, rank + 1) - begin;
    const bool beside = part.spec().space.options.stack == Stack::columns;
    for (std::size_t s = 0; s < kSamples; ++s) {
      const Sample where = sample(source, s);
      double exact = 0;
      for (int r = 0; r < ranks; ++r)
        if (!exchange || r == source) exact += told[at(r) * kSamples + s];
      largest = std::max(largest, std::abs(exact));
      if (kind != SpaceKind::all_reduce && owner_of(where.row, p.m, ranks) != rank) continue;
      std::int64_t row = kind == SpaceKind::all_reduce ? where.row : where.row - begin;
      if (exchange && !beside) row += source * part_rows;
      worst =
          std::max(worst, std::abs(value_in(part.last_result(), row, (beside ? first_col : 0) + where.col) - exact));
    }
    first_col += p.columns(source);
  }
  return largest > 0 ? worst / largest : worst;
}

double SampleCheck::error_of(const WorkloadBlock& block, std::uint64_t seed) {
  double worst = 0;
  for (const auto& part : block.parts()) {
    if (!part->communicates() || part->spec().alone() || part->spec().gathers) continue;
    const double error = error_of(*part, seed);
    const Producer& p = part->spec().producer;
    const std::int64_t terms = p.kind == ProducerKind::gemm ? p.k * part->spec().ranks : 128;
    if (error > rounding_of(terms))
      fail(Code::internal,
           "{} gives a wrong result on rank {}: off by {:.2g} of the largest value, where rounding explains {:.2g}; a "
           "wrong result has no time",
           part->name(), world_.rank(), error, rounding_of(terms));
    worst = std::max(worst, error);
  }
  return worst;
}

}  // namespace weft
