#include "weft/llm/distill/head_groups_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/index.h"
#include "weft/llm/distill/head_groups.h"
#include "weft/nn/adamw.h"

namespace weft {
namespace {

constexpr std::int64_t kMostQueries = 64;

struct Measured {
  World& world;
  RankBlock& block;
  const ModelConfig& config;
  const Activations& inputs;
  std::int64_t samples, batch;

  std::int64_t sequence() const { return block.rows() / batch; }
};

// (heads, queries * sequence): mean attention weights, on all ranks.
std::vector<float> head_vectors(const Measured& m, const std::vector<float>& whole, std::int64_t* width) {
  const std::int64_t sequence = m.sequence(), queries = std::min(kMostQueries, sequence);
  const ModelShard& shard = m.block.shard();
  const std::vector<float> weights = take_shard(m.config, shard, whole);
  *width = queries * sequence;
  std::vector<float> vectors(num(m.config.heads * *width));
  for (std::int64_t first = 0; first < m.samples; first += m.batch) {
    m.block.attend(weights.data(), m.inputs.sample(first));
    for (std::int64_t s = 0; s < m.batch; ++s)
      for (std::int64_t head = 0; head < shard.heads.size(); ++head)
        for (std::int64_t q = 0; q < queries; ++q) {
          const std::int64_t query = (q + 1) * sequence / queries - 1, window = m.config.design.block(0).window;
          const float* row = m.block.attention().weights(s, head) + query * sequence;
          float* to = vectors.data() + (shard.heads.begin + head) * *width + q * sequence;
          for (std::int64_t key = window > 0 ? std::max<std::int64_t>(0, query - window + 1) : 0; key <= query; ++key)
            to[key] += row[key] / static_cast<float>(m.samples);
        }
  }
  RankSum(m.world, std::ssize(vectors)).add_up(vectors.data());
  return vectors;
}

// (groups, ranks): the summed norm of rank i's MLP output when fed with group j, heads already in the groups' order.
std::vector<float> answers(const Measured& m, const std::vector<float>& whole) {
  const int ranks = m.block.shard().ranks, me = m.block.shard().rank;
  const std::vector<float> weights = take_shard(m.config, m.block.shard(), whole);
  std::vector<float> x1(num(m.block.values())), z(x1.size());
  std::vector<float> values(num(ranks) * num(ranks));
  for (std::int64_t first = 0; first < m.samples; first += m.batch) {
    const float* x = m.inputs.sample(first);
    m.block.attend(weights.data(), x);
    for (int group = 0; group < ranks; ++group) {
      const float* y = m.block.rows_of(group, m.block.attended().data());
      for (std::size_t i = 0; i < x1.size(); ++i) x1[i] = x[i] + y[i];
      m.block.add_output_bias(weights.data(), x1.data());
      m.block.feed(weights.data(), x1.data(), z.data());
      values[at(group * ranks + me)] += static_cast<float>(std::sqrt(sum_of_squares(z)));
    }
  }
  RankSum(m.world, std::ssize(values)).add_up(values.data());
  return values;
}

std::vector<int> joined(const std::vector<std::vector<int>>& groups) {
  std::vector<int> order;
  for (const auto& group : groups) order.insert(order.end(), group.begin(), group.end());
  return order;
}

double distance_in_place(std::span<const double> distances, std::span<const std::int64_t> sizes) {
  const auto units = num(std::sqrt(distances.size()) + 0.5);
  double sum = 0;
  std::size_t begin = 0;
  for (const std::int64_t size : sizes) {
    for (std::size_t a = begin; a < begin + num(size); ++a)
      for (std::size_t b = begin; b < a; ++b) sum += distances[a * units + b];
    begin += num(size);
  }
  return sum;
}

}  // namespace

MeasuredGroups measure_groups(World& world, RankBlock& block, const ModelConfig& config,
                              const std::vector<float>& whole, const Activations& inputs, std::int64_t samples,
                              std::int64_t batch) {
  const int ranks = world.size();
  const std::vector<std::int64_t> sizes = units_of_ranks(config, ranks);
  if (sizes.empty()) return {};
  const Measured m{world, block, config, inputs, samples / batch * batch, batch};
  std::int64_t width = 0;
  const std::vector<float> vectors = head_vectors(m, whole, &width);
  const std::vector<double> distances = unit_distances(config.heads, config.heads_per_kv(), width, vectors);
  const HeadGroups found = group_heads(distances, sizes);
  std::vector<float> grouped = whole;
  permute_heads(config, joined(found.groups), &grouped);
  const std::vector<float> strengths = answers(m, grouped);
  std::vector<double> values(strengths.begin(), strengths.end());
  for (std::size_t group = 0; group < sizes.size(); ++group)  // a group fits ranks of its size
    for (std::size_t rank = 0; rank < sizes.size(); ++rank)
      if (sizes[group] != sizes[rank]) values[group * sizes.size() + rank] = -std::numeric_limits<double>::infinity();
  const std::vector<int> rank_of = largest_assignment(ranks, values);
  std::vector<std::vector<int>> placed(sizes.size());
  for (std::size_t group = 0; group < sizes.size(); ++group) placed[at(rank_of[group])] = found.groups[group];
  return {joined(placed), found.distance, distance_in_place(distances, sizes)};
}

}  // namespace weft
