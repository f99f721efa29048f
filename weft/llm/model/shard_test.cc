// Shards of made-up shapes: parts are even, in order, and cut where wire formats like it.
#include "weft/llm/model/shard.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

ModelConfig shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t intermediate, std::int64_t vocab) {
  ModelConfig config;
  config.heads = heads, config.kv_heads = kv_heads, config.head_dim = 8;
  config.intermediate = intermediate, config.vocab = vocab;
  return config;
}

TEST(Shard, PartsDifferByOneUnitAtMost) {
  for (const int ranks : {1, 2, 3, 7, 64})
    for (const auto& config : {shape(12, 4, 96, 1000), shape(5, 5, 4096, 17), shape(64, 8, 28672, 32000)}) {
      std::int64_t least_heads = 1 << 20, most_heads = 0, least_vocab = 1 << 20, most_vocab = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ModelShard shard = shard_of(config, rank, ranks);
        least_heads = std::min(least_heads, shard.heads.size()), most_heads = std::max(most_heads, shard.heads.size());
        least_vocab = std::min(least_vocab, shard.vocab.size()), most_vocab = std::max(most_vocab, shard.vocab.size());
        EXPECT_EQ(shard.rank, rank);
        EXPECT_EQ(shard.ranks, ranks);
      }
      EXPECT_LE(most_heads - least_heads, 1);
      EXPECT_LE(most_vocab - least_vocab, 1);
      const ModelShard any = shard_of(config, 0, ranks);
      EXPECT_EQ(any.attention_width, most_heads * config.head_dim) << "the widest rank's, on every rank";
      EXPECT_EQ(any.vocab_width, most_vocab);
    }
}

TEST(Shard, ColumnsAreWholeLinesOfTheWireWhereTheyFit) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(shard_of(shape(8, 8, 320, 10), rank, 3).mlp.begin % 32, 0);
    EXPECT_EQ(shard_of(shape(8, 8, 320, 10), rank, 3).mlp.end % 32, 0);
  }
  EXPECT_EQ(shard_of(shape(8, 8, 64, 10), 0, 4).mlp.size(), 16) << "two lines are too few for four ranks";
  EXPECT_EQ(shard_of(shape(8, 8, 33, 10), 0, 1).mlp.size(), 33);
}

TEST(Shard, MoreRanksThanHeadsLeavesSomeWithout) {
  std::int64_t heads = 0;
  int without = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const ModelShard shard = shard_of(shape(3, 1, 64, 10), rank, 8);
    heads += shard.heads.size();
    without += shard.heads.size() == 0;
    EXPECT_EQ(shard.kv_heads.size(), shard.heads.size()) << "a rank without queries needs no keys";
    EXPECT_EQ(shard.attention_width, 8) << "which it fills with zeros";
  }
  EXPECT_EQ(heads, 3);
  EXPECT_EQ(without, 5);
}

TEST(Shard, RanksThatCannotBeAreRefused) {
  const ModelConfig config = shape(4, 4, 64, 10);
  EXPECT_NE(refusal([&] { shard_of(config, 0, 0); }).find("0 ranks share a model"), std::string::npos);
  EXPECT_NE(refusal([&] { shard_of(config, 2, 2); }).find("rank 2 is none of 2"), std::string::npos);
  EXPECT_NE(refusal([&] { shard_of(config, -1, 2); }).find("rank -1"), std::string::npos);
  EXPECT_NE(refusal([&] { shard_of(config, 0, 1 << 20); }).find("use 1 to 65536"), std::string::npos);
}

}  // namespace
}  // namespace weft
