// Where shards lie: every element of a tensor is held by as many ranks as replicate it, and by no other.
#include "weft/reshard/build/shards.h"

#include <gtest/gtest.h>

#include "weft/reshard/cases_test.h"

namespace weft::resharding {
namespace {

TEST(ReshardShards, EveryElementIsHeldByEqualNumbersOfRanks) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Reshard reshard = random_tangle(seed, false).reshard;
    for (const Transfer& transfer : reshard.transfers)
      for (const ShardedTensor& tensor : {transfer.destination, transfer.parts[0].tensor}) {
        const Box all = whole(tensor.shape);
        std::int64_t held = 0;
        std::vector<Box> boxes;
        for (int rank = 0; rank < reshard.num_ranks; ++rank) {
          const Box box = shard_of(reshard, tensor, {}, rank);
          EXPECT_EQ(box.dims, all.dims);
          EXPECT_TRUE(contains(all, box)) << to_string(box);
          if (box.empty()) continue;
          held += box.volume();
          for (const Box& other : boxes) EXPECT_TRUE(other == box || !overlaps(other, box));
          boxes.push_back(box);
        }
        EXPECT_EQ(held % all.volume(), 0);
        EXPECT_GE(held, all.volume());
      }
  }
}

TEST(ReshardShards, ACornerMovesThem) {
  const Reshard reshard = one_tensor({8, 6}, Dtype::f32, hosts_by_devices(2, 1), "S0,R", hosts_by_devices(1, 1), "R,R");
  const ShardedTensor& source = reshard.transfers[0].parts[0].tensor;
  EXPECT_EQ(shard_of(reshard, source, {}, 1), (Box{{4, 8}, {0, 6}}));
  EXPECT_EQ(shard_of(reshard, source, {10, 3}, 1), (Box{{14, 18}, {3, 9}}));
  EXPECT_TRUE(shard_of(reshard, source, {10, 3}, 2).empty()) << "rank 2 is of the destination";
  EXPECT_EQ(shard_of(reshard, source, {}, 2).dims, 2);
}

TEST(ReshardShards, AScalarIsOneElementOfARow) {
  const Reshard reshard = one_tensor({}, Dtype::i64, hosts_by_devices(1, 2), "", hosts_by_devices(1, 1), "");
  const ShardedTensor& source = reshard.transfers[0].parts[0].tensor;
  EXPECT_EQ(dims_of(source), 1);
  EXPECT_EQ(shard_of(reshard, source, {}, 0), (Box{{0, 1}}));
  EXPECT_TRUE(shard_of(reshard, source, {}, 2).empty());
}

}  // namespace
}  // namespace weft::resharding
