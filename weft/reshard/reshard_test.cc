#include "weft/reshard/reshard.h"

#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

const Mesh kMesh = hosts_by_devices(2, 4);

TEST(Reshard, TasksAreTheOverlapsOfTiles) {
  const std::vector<Task> all = tasks(one_tensor({6, 8}, Dtype::bf16, kMesh, "S0,R", kMesh, "R,S1"));
  ASSERT_EQ(all.size(), 8u);  // 4 column tiles x 2 row tiles
  EXPECT_EQ(all[1].box, (Box{{3, 6}, {0, 2}}));
  EXPECT_EQ(all[1].bytes, 12);
  EXPECT_EQ(all[1].senders, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(all[1].receivers, (std::vector<int>{8, 12}));
}

// Element by element from the shards of every rank, as slow and as plain as it can be.
TEST(Reshard, EveryElementIsInOneTaskOfItsHoldersAndReceivers) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Instance instance = random_tangle(seed, false);
    for (Transfer& transfer : instance.reshard.transfers) {
      for (std::int64_t& size : transfer.destination.shape) size = 1 + size % 11;
      transfer.parts[0].tensor.shape = transfer.destination.shape;
    }
    const Reshard& reshard = instance.reshard;
    std::vector<std::int64_t> elements(reshard.transfers.size());
    for (const Task& task : tasks(reshard)) {
      const Transfer& transfer = reshard.transfers[at(task.transfer)];
      elements[at(task.transfer)] += task.box.volume();
      const auto ranks_with = [&](const ShardedTensor& tensor) {
        const Placement& placement = reshard.placements[at(tensor.placement)];
        std::vector<int> ranks;
        for (int place = 0; place < placement.mesh.size(); ++place)
          if (contains(shard_box(tensor.shape, tensor.sharding, placement.mesh, place), task.box))
            ranks.push_back(placement.ranks[at(place)]);
        std::sort(ranks.begin(), ranks.end());
        return ranks;
      };
      EXPECT_EQ(task.senders, ranks_with(transfer.parts[0].tensor));
      EXPECT_EQ(task.receivers, ranks_with(transfer.destination));
      EXPECT_EQ(task.bytes, task.box.volume() * 2);
    }
    for (std::size_t i = 0; i < elements.size(); ++i)
      EXPECT_EQ(elements[i], whole(reshard.transfers[i].destination.shape).volume());
  }
}

Reshard fused() {  // q (4 rows), k and v (2 each) form one tensor of 8 rows
  Reshard reshard = one_tensor({8, 4}, Dtype::f32, kMesh, "S0,R", kMesh, "S1,R");
  Part part = reshard.transfers[0].parts[0];
  reshard.transfers[0].parts.clear();
  const char* names[] = {"q", "k", "v"};
  const std::int64_t first[] = {0, 4, 6, 8};
  for (int i = 0; i < 3; ++i) {
    part.tensor.name = names[i];
    part.tensor.shape = {first[i + 1] - first[i], 4};
    part.at = {first[i], 0};
    reshard.transfers[0].parts.push_back(part);
  }
  return reshard;
}

TEST(Reshard, SeveralTensorsFormOne) {
  const std::vector<Task> all = tasks(fused());
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[2].part, 1);  // destination tile 2 (rows 4 and 5): the two halves of k
  EXPECT_EQ(all[2].box, (Box{{4, 5}, {0, 4}}));
  EXPECT_EQ(all[5].box, (Box{{7, 8}, {0, 4}}));
  EXPECT_EQ(all[5].part, 2);
}

TEST(Reshard, ConvertsBetweenFloatsInTheNarrowerOne) {
  Reshard reshard = one_tensor({8}, Dtype::f32, kMesh, "R", kMesh, "R");
  reshard.transfers[0].destination.dtype = Dtype::bf16;
  EXPECT_EQ(tasks(reshard)[0].bytes, 16);
  reshard.transfers[0].destination.dtype = Dtype::i32;
  EXPECT_NE(refusal([&] { tasks(reshard); }).find("only f32 and bf16 convert"), std::string::npos);
}

TEST(Reshard, BadLayoutsAreRefused) {
  const auto refused = [](const std::function<void(Reshard&)>& spoil) {
    Reshard reshard = fused();
    spoil(reshard);
    return refusal([&] { check_reshard(reshard); });
  };
  const auto expect = [&](const char* words, const std::function<void(Reshard&)>& spoil) {
    EXPECT_NE(refused(spoil).find(words), std::string::npos) << refused(spoil);
  };
  expect("did not throw", [](Reshard&) {});
  expect("\"k\" and \"v\" of \"destination\" overlap in [5:6, 0:4]",
         [](Reshard& r) { r.transfers[0].parts[2].at[0] = 5; });
  expect("no part of \"destination\" fills [6:8, 0:4]", [](Reshard& r) { r.transfers[0].parts.pop_back(); });
  expect("which is only [0:8, 0:4]", [](Reshard& r) { r.transfers[0].parts[2].at[0] = 7; });
  expect("is made of no tensor", [](Reshard& r) { r.transfers[0].parts.clear(); });
  expect("dim 1 of \"destination\" is 0", [](Reshard& r) { r.transfers[0].destination.shape[1] = 0; });
  expect("names rank 16, but the world has 16", [](Reshard& r) { r.placements[1].ranks[0] = 16; });
  expect("names rank 9 twice", [](Reshard& r) { r.placements[1].ranks[0] = 9; });
  expect("has 7 ranks for a mesh of 8", [](Reshard& r) { r.placements[1].ranks.pop_back(); });
  expect("is on placement 5", [](Reshard& r) { r.transfers[0].destination.placement = 5; });
  expect("partial sums along axis \"host\"",
         [](Reshard& r) { r.transfers[0].destination.sharding = parse_sharding("R,R+P0", kMesh); });
  expect("for 1 dimensions, but the tensor has 2",
         [](Reshard& r) { r.transfers[0].destination.sharding = parse_sharding("R", kMesh); });
  EXPECT_NE(refusal([] {
              one_tensor({4, 4}, Dtype::f32, kMesh, "S0,S0", kMesh, "R,R");
            }).find("used twice"),
            std::string::npos);
}

TEST(Reshard, ScalarsAndRaggedTilesMove) {
  EXPECT_EQ(tasks(one_tensor({}, Dtype::i64, kMesh, "", kMesh, "")).size(), 1u);
  const std::vector<Task> ragged = tasks(one_tensor({5}, Dtype::u8, kMesh, "S01", kMesh, "S0"));
  EXPECT_EQ(ragged.size(), 5u);  // three of eight ranks hold nothing
  EXPECT_EQ(ragged[3].receivers, (std::vector<int>{12, 13, 14, 15}));
}

}  // namespace
}  // namespace weft
