#include "weft/study/input/check.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/mesh/box.h"
#include "weft/study/input/values.h"

namespace weft {
namespace {

double weight_at(const Producer& p, std::uint64_t stream, std::int64_t index) {
  const float value = value_at(stream, index);
  if (p.weight == Dtype::f16) return to_float(to_f16(value));
  return p.weight == Dtype::bf16 ? to_float(to_bf16(value)) : value;
}

// One element of x times w, for rows of x that come from `x_rank`.
double product(const Producer& p, std::uint64_t x, std::uint64_t w, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t q = 0; q < p.k; ++q)
    sum += static_cast<double>(value_at(x, i * p.k + q)) *
           weight_at(p, w, p.kind == ProducerKind::gemv ? j * p.k + q : q * p.n + j);
  return sum;
}

}  // namespace

double Reference::made(std::uint64_t round, int rank, std::int64_t i, std::int64_t j) const {
  const Producer& p = spec_.producer;
  const std::uint64_t x = stream_of(Input::x, rank, round);
  if (p.kind == ProducerKind::copy) return value_at(x, i * p.n + j);
  if (p.kind != ProducerKind::embedding_bag)
    return (p.addend ? value_at(stream_of(Input::addend, rank, round), i * p.n + j) : 0) +
           product(p, x, stream_of(Input::w, rank, 0), i, j);
  const auto table = static_cast<std::uint64_t>(j / p.dim);
  const BagTable& bag = spec_.bags[at(rank)][table];
  const std::uint64_t values = stream_of(Input::table, rank, 0, table),
                      indices = stream_of(Input::index, rank, round, table);
  double sum = 0;
  for (std::int64_t q = i * bag.pooling; q < (i + 1) * bag.pooling; ++q)
    sum += value_at(values, zipf_index_at(indices, q, bag.rows, spec_.zipf) * p.dim + j % p.dim);
  return p.pooling == Pooling::mean ? sum / bag.pooling : sum;
}

// Rows of every rank's x, this rank's w.
double Reference::gathered(std::uint64_t round, int rank, std::int64_t i, std::int64_t j) const {
  const Producer& p = spec_.producer;
  return product(p, stream_of(Input::x, static_cast<int>(i / p.m), round), stream_of(Input::w, rank, 0), i % p.m, j);
}

double Reference::element(Expect what, std::uint64_t round, int rank, std::int64_t i, std::int64_t j) const {
  const Producer& p = spec_.producer;
  if (spec_.gathers) return gathered(round, rank, i, j);
  if (what == Expect::producer) return made(round, rank, i, j);
  const int ranks = spec_.ranks;
  const std::int64_t begin = cut(p.m, ranks, rank), part = cut(p.m, ranks, rank + 1) - begin;
  const auto summed = [&](std::int64_t row) {
    double sum = 0;
    for (int q = 0; q < ranks; ++q) sum += made(round, q, row, j);
    return sum;
  };
  switch (spec_.space.kind) {
    case SpaceKind::keep:
      return made(round, rank, i, j);
    case SpaceKind::reduce_scatter:
      return summed(begin + i);
    case SpaceKind::all_reduce:
      return summed(i);
    case SpaceKind::all_gather:
      return made(round, static_cast<int>(i / p.m), i % p.m, j);
    case SpaceKind::all_to_all:
      if (spec_.space.options.stack == Stack::columns) {
        int from = 0;
        for (; j >= p.columns(from); ++from) j -= p.columns(from);
        return made(round, from, begin + i, j);
      }
      return made(round, static_cast<int>(i / part), begin + i % part, j);
    case SpaceKind::broadcast:
      return made(round, spec_.space.options.root, i, j);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Reference::Size Reference::size(Expect what, int rank) const {
  const Producer& p = spec_.producer;
  const std::int64_t ranks = spec_.ranks, part = cut(p.m, ranks, rank + 1) - cut(p.m, ranks, rank);
  if (spec_.gathers) return {p.m * ranks, p.n};
  if (what == Expect::producer || spec_.space.kind == SpaceKind::keep) return {p.m, p.columns(rank)};
  std::int64_t all_columns = 0;
  for (int q = 0; q < spec_.ranks; ++q) all_columns += p.columns(q);
  switch (spec_.space.kind) {
    case SpaceKind::reduce_scatter:
      return {part, p.n};
    case SpaceKind::all_gather:
      return {p.m * ranks, p.n};
    case SpaceKind::all_to_all:
      return spec_.space.options.stack == Stack::columns ? Size{part, all_columns} : Size{part * ranks, p.n};
    default:
      return {p.m, p.n};
  }
}

std::int64_t Reference::terms_of_an_element() const {
  const Producer& p = spec_.producer;
  const bool sums = spec_.space.kind == SpaceKind::reduce_scatter || spec_.space.kind == SpaceKind::all_reduce;
  std::int64_t pooling = 1;
  for (const auto& of_rank : spec_.bags)
    for (const BagTable& bag : of_rank) pooling = std::max(pooling, bag.pooling);
  return std::max(p.k, pooling) * (sums ? spec_.ranks : 1);
}

double Reference::tolerance() const {
  const SpaceOptions& options = spec_.space.options;
  if (options.wire == Dtype::bf16 || options.wire_sums == Dtype::bf16) return 0.02;
  // Each contribution is off by 1/254 of its block's largest value at most, the sum likewise.
  if (options.wire == Dtype::int8 || options.wire_sums == Dtype::int8)
    return 1.01 / 254 * (static_cast<double>(spec_.ranks) + 1);
  return 1e-6 + 2.5e-7 * std::sqrt(terms_of_an_element());
}

struct Reference::Check {
  Expect what;
  std::uint64_t round;
  int rank;
  std::int64_t elements;  // of the block to look at
};

// One element of each of `elements` stretches of the block.
void Reference::check(const Placed& block, const Check& how, double* worst, double* largest) const {
  const Matrix& y = block.values;
  const std::int64_t all = y.rows * y.cols, checked = std::min(all, how.elements);
  for (std::int64_t s = 0; s < checked; ++s) {
    const std::int64_t begin = cut(all, checked, s), length = cut(all, checked, s + 1) - begin;
    const std::int64_t at = begin + index_at(how.round, s, length);
    const double wanted = element(how.what, how.round, how.rank, block.row + at / y.cols, block.col + at % y.cols);
    const double off = std::abs(y.data[at] - wanted);
    *worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(*worst, off);
    if (std::isinf(*worst)) return;
    *largest = std::max(*largest, std::abs(wanted));
  }
}

double Reference::error_of(const Matrix& y, Expect what, std::uint64_t round, int rank, std::int64_t terms) const {
  return error_of(Result{{y}}, what, round, rank, terms);
}

double Reference::error_of(const Result& y, Expect what, std::uint64_t round, int rank, std::int64_t terms) const {
  const Size expected = size(what, rank);
  std::int64_t covered = 0;
  for (const Placed& block : y) {
    covered += block.values.rows * block.values.cols;
    if (block.row < 0 || block.col < 0 || block.row + block.values.rows > expected.rows ||
        block.col + block.values.cols > expected.cols)
      return std::numeric_limits<double>::infinity();
  }
  if (covered != expected.rows * expected.cols) return std::numeric_limits<double>::infinity();
  const std::int64_t blocks = std::max<std::int64_t>(1, std::ssize(y));
  const std::int64_t elements = std::max<std::int64_t>(terms / terms_of_an_element() / blocks, ceil_div(64, blocks));
  double worst = 0, largest = 0.1;  // a floor, lest a single element that cancels is judged by itself
  for (const Placed& block : y) {
    check(block, {what, round, rank, elements}, &worst, &largest);
    if (std::isinf(worst)) return worst;
  }
  return worst / largest;
}

}  // namespace weft
