#include "weft/llm/model/shard.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr int kMostRanks = 1 << 16;

IndexRange part_of(std::int64_t units, std::int64_t unit, std::int64_t rank, std::int64_t ranks) {
  return {rank * units / ranks * unit, (rank + 1) * units / ranks * unit};
}

// Columns go in whole lines of a block-wise wire format where those divide them and there is one for every rank.
std::int64_t column_unit(std::int64_t columns, int ranks) {
  constexpr std::int64_t kLine = 32;
  return columns % kLine == 0 && columns / kLine >= ranks ? kLine : 1;
}

}  // namespace

ModelShard shard_of(const ModelConfig& config, int rank, int ranks) {
  if (ranks < 1 || ranks > kMostRanks) bad_input("{} ranks share a model; use 1 to {}", ranks, kMostRanks);
  if (rank < 0 || rank >= ranks) bad_input("rank {} is none of {} ranks", rank, ranks);
  ModelShard shard{.rank = rank, .ranks = ranks};
  const std::int64_t unit = column_unit(config.intermediate, ranks);
  shard.heads = part_of(config.heads, 1, rank, ranks);
  shard.mlp = part_of(config.intermediate / unit, unit, rank, ranks);
  shard.vocab = part_of(config.vocab, 1, rank, ranks);
  const std::int64_t group = config.heads_per_kv();
  if (shard.heads.size() > 0) shard.kv_heads = {shard.heads.begin / group, (shard.heads.end - 1) / group + 1};
  for (int other = 0; other < ranks; ++other) {
    shard.attention_width =
        std::max(shard.attention_width, part_of(config.heads, 1, other, ranks).size() * config.head_dim);
    shard.mlp_width = std::max(shard.mlp_width, part_of(config.intermediate / unit, unit, other, ranks).size());
    shard.vocab_width = std::max(shard.vocab_width, part_of(config.vocab, 1, other, ranks).size());
  }
  return shard;
}

}  // namespace weft
