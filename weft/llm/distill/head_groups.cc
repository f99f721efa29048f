#include "weft/llm/distill/head_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/distill/block_weights.h"
#include "weft/llm/model/shard.h"

namespace weft {
namespace {

constexpr std::size_t kMostExact = 8;  // units: at most 2520 partitions into pairs and such, in microseconds

// All partitions, unit by unit. Groups of one size are alike, so of the empty ones only the first is tried.
class PartitionSearch {
 public:
  PartitionSearch(std::span<const double> distances, std::span<const std::int64_t> sizes, std::size_t units)
      : distances_(distances), sizes_(sizes), units_(units) {
    now_.groups.resize(sizes.size());
    best_.distance = -1;
    place(0);
    best_.exact = true;
  }
  const HeadGroups& best() const { return best_; }

 private:
  void place(std::size_t unit) {
    if (unit == units_) {
      if (now_.distance > best_.distance) best_ = now_;
      return;
    }
    for (std::size_t g = 0; g < sizes_.size(); ++g) {
      auto& group = now_.groups[g];
      if (std::ssize(group) == sizes_[g] || (group.empty() && has_earlier_twin(g))) continue;
      double added = 0;
      for (const int other : group) added += distances_[unit * units_ + num(other)];
      group.push_back(static_cast<int>(unit));
      now_.distance += added;
      place(unit + 1);
      now_.distance -= added;
      group.pop_back();
    }
  }
  bool has_earlier_twin(std::size_t g) const {
    for (std::size_t earlier = 0; earlier < g; ++earlier)
      if (sizes_[earlier] == sizes_[g] && now_.groups[earlier].empty()) return true;
    return false;
  }

  std::span<const double> distances_;
  std::span<const std::int64_t> sizes_;
  std::size_t units_;
  HeadGroups now_, best_;
};

double inside(std::span<const double> distances, std::size_t units, const std::vector<int>& group) {
  double sum = 0;
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) sum += distances[at(group[i]) * units + num(group[j])];
  return sum;
}

// Each unit goes where it is farthest from those already there, a unit with the largest distances first.
HeadGroups greedy_groups(std::span<const double> distances, std::span<const std::int64_t> sizes, std::size_t units) {
  std::vector<double> total(units);
  for (std::size_t i = 0; i < units; ++i)
    total[i] = std::accumulate(distances.begin() + (i * units), distances.begin() + ((i + 1) * units), 0.0);
  std::vector<int> order(units);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return total[at(a)] > total[at(b)]; });
  HeadGroups out{.groups = std::vector<std::vector<int>>(sizes.size())};
  for (const int unit : order) {
    std::size_t best = sizes.size();
    double best_gain = -1;
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      if (std::ssize(out.groups[g]) == sizes[g]) continue;
      double gain = 0;
      for (const int other : out.groups[g]) gain += distances[at(unit) * units + num(other)];
      if (gain > best_gain) best = g, best_gain = gain;
    }
    out.groups[best].push_back(unit);
  }
  return out;
}

// Swaps two units of two groups wherever that helps, until nowhere does.
void improve(std::span<const double> distances, std::size_t units, HeadGroups* all) {
  for (bool better = true; better;) {
    better = false;
    for (std::size_t g = 0; g < all->groups.size(); ++g)
      for (std::size_t h = 0; h < g; ++h)
        for (int& a : all->groups[g])
          for (int& b : all->groups[h]) {
            const double before = inside(distances, units, all->groups[g]) + inside(distances, units, all->groups[h]);
            std::swap(a, b);
            const double after = inside(distances, units, all->groups[g]) + inside(distances, units, all->groups[h]);
            if (after > before * (1 + 1e-12)) {
              better = true;
            } else {
              std::swap(a, b);
            }
          }
  }
}

}  // namespace

std::vector<double> unit_distances(std::int64_t heads, std::int64_t heads_per_unit, std::int64_t width,
                                   std::span<const float> vectors) {
  const std::int64_t units = heads / heads_per_unit;
  std::vector<double> distances(num(units * units));
  for (std::int64_t a = 0; a < heads; ++a)
    for (std::int64_t b = 0; b < heads; ++b) {
      if (a / heads_per_unit == b / heads_per_unit) continue;
      double squares = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        const double difference = static_cast<double>(vectors[at(a * width + j)]) - vectors[at(b * width + j)];
        squares += difference * difference;
      }
      distances[at(a / heads_per_unit * units + b / heads_per_unit)] += std::sqrt(squares);
    }
  return distances;
}

HeadGroups group_heads(std::span<const double> distances, std::span<const std::int64_t> sizes) {
  const auto units = num(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  if (distances.size() != units * units)
    bad_input("{} units in groups need {} distances, but there are {}", units, units * units, distances.size());
  HeadGroups out;
  if (units <= kMostExact) {
    out = PartitionSearch(distances, sizes, units).best();
  } else {
    out = greedy_groups(distances, sizes, units);
    improve(distances, units, &out);
  }
  out.distance = 0;
  for (auto& group : out.groups) {
    std::sort(group.begin(), group.end());
    out.distance += inside(distances, units, group);
  }
  return out;
}

// Rows one by one, each along a shortest augmenting path under potentials that keep every reduced cost >= 0.
std::vector<int> largest_assignment(int n, std::span<const double> values) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const auto size = num(n) + 1;
  std::vector<double> row_price(size), col_price(size);
  std::vector<std::size_t> row_of(size);  // of each column; column 0 holds the row that looks for one
  for (std::size_t row = 1; row < size; ++row) {
    std::vector<double> shortest(size, kFar);
    std::vector<std::size_t> before(size);
    std::vector<bool> done(size);
    std::size_t col = 0;
    row_of[0] = row;
    do {
      done[col] = true;
      const std::size_t from = row_of[col];
      std::size_t next = 0;
      double step = kFar;
      for (std::size_t j = 1; j < size; ++j) {
        if (done[j]) continue;
        const double cost = -values[(from - 1) * (size - 1) + j - 1] - row_price[from] - col_price[j];
        if (cost < shortest[j]) shortest[j] = cost, before[j] = col;
        if (shortest[j] < step) step = shortest[j], next = j;
      }
      if (next == 0) bad_input("no assignment of {} rows avoids the pairs that must not be", n);
      for (std::size_t j = 0; j < size; ++j) {
        if (done[j]) {
          row_price[row_of[j]] += step, col_price[j] -= step;
        } else {
          shortest[j] -= step;
        }
      }
      col = next;
    } while (row_of[col] != 0);
    for (; col != 0; col = before[col]) row_of[col] = row_of[before[col]];
  }
  std::vector<int> out(num(n));
  for (std::size_t j = 1; j < size; ++j) out[row_of[j] - 1] = static_cast<int>(j) - 1;
  return out;
}

std::vector<std::int64_t> units_of_ranks(const ModelConfig& config, int ranks) {
  const std::int64_t unit = config.heads_per_kv();
  std::vector<std::int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) {
    const IndexRange heads = shard_of(config, rank, ranks).heads;
    if (heads.begin % unit != 0 || heads.end % unit != 0) return {};
    sizes.push_back(heads.size() / unit);
  }
  return sizes;
}

void permute_heads(const ModelConfig& config, std::span<const int> order, std::vector<float>* whole) {
  const BlockLayout layout(block_shape(config, shard_of(config, 0, 1)));
  const std::vector<float> old = *whole;
  const auto rows = [&](BlockParam param, std::int64_t heads) {  // `heads` of them a unit, a head head_dim rows
    const BlockLayout::Place& place = layout[param];
    const std::int64_t floats = heads * config.head_dim * place.cols;
    for (std::size_t i = 0; i < order.size() && place.size() > 0; ++i)
      std::copy_n(old.begin() + place.begin + order[i] * floats, floats,
                  whole->begin() + place.begin + static_cast<std::int64_t>(i) * floats);
  };
  for (const BlockParam param : {BlockParam::q_weight, BlockParam::q_bias}) rows(param, config.heads_per_kv());
  for (const BlockParam param : {BlockParam::k_weight, BlockParam::k_bias, BlockParam::v_weight, BlockParam::v_bias})
    rows(param, 1);
  const BlockLayout::Place& o = layout[BlockParam::o_weight];
  const std::int64_t width = config.heads_per_kv() * config.head_dim;
  for (std::int64_t row = 0; row < o.rows; ++row)
    for (std::int64_t i = 0; i < std::ssize(order); ++i)
      std::copy_n(old.begin() + o.begin + row * o.cols + order[at(i)] * width, width,
                  whole->begin() + o.begin + row * o.cols + i * width);
}

}  // namespace weft
