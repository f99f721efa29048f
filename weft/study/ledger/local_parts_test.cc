// Times of a block's local parts grow as its work does: no figure is made up.
#include "weft/study/ledger/local_parts.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

ModelConfig small_model() {
  ModelConfig config;
  config.hidden = 64;
  config.heads = config.kv_heads = 4;
  config.head_dim = 16;
  config.intermediate = 128;
  config.vocab = 32;
  config.blocks = 1;
  return config;
}

TEST(LocalParts, MoreRowsTakeLonger) {
  const ModelConfig config = small_model();
  const ModelShard shard = shard_of(config, 0, 2);
  const LocalParts few = time_local_parts(config, shard, 128), many = time_local_parts(config, shard, 1024);
  EXPECT_GT(few.block_s, 0);
  EXPECT_GT(many.block_s, 4 * few.block_s);
}

TEST(LocalParts, AWeightIsPackedInNanoseconds) {
  const ModelConfig config = small_model();
  const LocalParts parts = time_local_parts(config, shard_of(config, 0, 1), 16);
  EXPECT_GT(parts.weight_s, 1e-12);
  EXPECT_LT(parts.weight_s, 1e-6);
}

}  // namespace
}  // namespace weft
