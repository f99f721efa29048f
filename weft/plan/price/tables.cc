#include "weft/plan/price/tables.h"

#include <algorithm>
#include <cmath>

#include "weft/base/index.h"

namespace weft::estimating {
namespace {

using Table = EstimateHint::Table;

// Rows of a table that are looked up about as often.
struct Group {
  double rows;
  double lookups;  // of all of them in a run
  std::size_t table;
};

std::vector<Table> tables_of(const Producer& p, int rank, const EstimateHint& hint) {
  const auto at = num(rank);
  if (at < hint.tables.size()) return hint.tables[at];
  const auto count = num(p.columns(rank) / p.dim);
  return {count, {hint.pooled_rows, static_cast<double>(p.rows)}};
}

// The share of lookups that go to the `first` most popular of `rows` rows: the integral of the popularity.
double share_of(double first, double rows, double zipf) {
  if (zipf <= 0) return first / rows;
  const double power = 1 - zipf;
  if (std::abs(power) < 1e-9) return std::log(first + 1) / std::log(rows + 1);
  return (std::pow(first + 1, power) - 1) / (std::pow(rows + 1, power) - 1);
}

// Twice as many rows in every group as in the one before.
void add_groups(const Table& t, std::size_t table, double batch, double zipf, std::vector<Group>* out) {
  const double step = zipf > 0 ? 1 : t.rows;
  for (double begin = 0, size = step; begin < t.rows; begin += size, size *= 2) {
    size = std::min(size, t.rows - begin);
    const double share = share_of(begin + size, t.rows, zipf) - share_of(begin, t.rows, zipf);
    out->push_back({size, batch * t.pooled * share, table});
    if (begin + size >= t.rows) return;
  }
}

double found(const Group& g, double runs) { return 1 - std::exp(-g.lookups / g.rows * runs); }

// After how many runs the cache is full. Bisection: what is in it grows with the time.
double runs_to_fill(const std::vector<Group>& groups, double row_bytes, double touched, double cache_bytes) {
  double low = 0, high = 1e6;
  for (int i = 0; i < 60; ++i) {
    const double runs = (low + high) / 2;
    double bytes = touched * runs;
    for (const Group& g : groups) bytes += g.rows * row_bytes * found(g, runs);
    (bytes > cache_bytes ? high : low) = runs;
  }
  return low;
}

}  // namespace

TableReads::TableReads(const Producer& p, int rank, double touched, const Cluster& cluster, const EstimateHint& hint)
    : dim_(static_cast<double>(p.dim)) {
  const std::vector<Table> tables = tables_of(p, rank, hint);
  const double row_bytes = dim_ * 4, batch = p.m;
  std::vector<Group> groups;
  for (std::size_t t = 0; t < tables.size(); ++t) add_groups(tables[t], t, batch, hint.zipf, &groups);
  const double runs = runs_to_fill(groups, row_bytes, touched, cluster.shared_cache_bytes);
  const double far = row_bytes / cluster.gather_bytes_per_s;
  const double near = std::min(far, row_bytes / cluster.gather_cached_bytes_per_s);
  a_bag_.resize(tables.size());
  for (const Group& g : groups) a_bag_[g.table] += g.lookups / batch * (far - found(g, runs) * (far - near));
}

double TableReads::seconds(const Box& box) const {
  double out = 0;
  for (std::size_t t = 0; t < a_bag_.size(); ++t) {
    const double begin = dim_ * static_cast<double>(t), end = begin + dim_;
    const double cols = std::min(end, static_cast<double>(box.hi[1])) - std::max(begin, static_cast<double>(box.lo[1]));
    if (cols > 0) out += a_bag_[t] * cols / dim_;
  }
  return out * box.size(0);
}

}  // namespace weft::estimating
