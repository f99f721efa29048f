#include "weft/mesh/sharding.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/mesh/mesh.h"

namespace weft {
namespace {

struct Case {
  Mesh mesh;
  Shape shape;
  Sharding sharding;
};

// Every axis of a random mesh splits a random dimension, is partial, or is left out.
Case random_case(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Case result;
  std::vector<Axis> axes;
  for (int i = below(4); i >= 0; --i) axes.push_back({"axis" + std::to_string(i), 1 + below(4)});
  result.mesh = Mesh(axes);
  for (int d = below(4); d > 0; --d) result.shape.push_back(below(12));
  result.sharding.dims.resize(result.shape.size());
  std::shuffle(axes.begin(), axes.end(), random);
  for (const Axis& axis : axes) {
    const int where = below(int_size(result.shape) + 2);
    if (where < int_size(result.shape)) {
      result.sharding.dims[at(where)].axes.push_back(axis.name);
    } else if (where == int_size(result.shape)) {
      result.sharding.partial.push_back(axis.name);
    }
  }
  return result;
}

void for_each_index(const Shape& shape, const Box& box, const std::function<void(std::size_t)>& visit) {
  if (box.empty()) return;
  std::vector<std::int64_t> at(box.lo.begin(), box.lo.begin() + box.dims);
  while (true) {
    std::int64_t offset = 0;
    for (int d = 0; d < box.dims; ++d) offset = offset * shape[d] + at[d];
    visit(num(offset));
    int d = box.dims - 1;
    for (; d >= 0 && ++at[d] == box.hi[d]; --d) at[d] = box.lo[d];
    if (d < 0) return;
  }
}

TEST(Sharding, SplitThenGatherIsIdentity) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    std::vector<int> tensor(num(whole(c.shape).volume()));
    std::iota(tensor.begin(), tensor.end(), 0);
    std::vector<int> gathered(tensor.size(), -1);
    for (int rank = 0; rank < c.mesh.size(); ++rank) {
      std::vector<int> local;
      const Box box = shard_box(c.shape, c.sharding, c.mesh, rank);
      for_each_index(c.shape, box, [&](std::size_t i) { local.push_back(tensor[i]); });
      std::size_t next = 0;
      for_each_index(c.shape, box, [&](std::size_t i) { gathered[i] = local[next++]; });
    }
    EXPECT_EQ(gathered, tensor) << to_string(c.mesh) << " " << to_string(c.sharding);
  }
}

TEST(Sharding, EveryElementIsOwnedOncePerReplicaGroup) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    int num_parts = 1;
    for (const std::string& axis : c.sharding.partial) num_parts *= c.mesh.axis(axis).size;
    const auto num_elements = num(whole(c.shape).volume());
    std::vector<std::vector<int>> owned(num(num_parts), std::vector<int>(num_elements));
    for (const Shard& shard : owners(c.shape, c.sharding, c.mesh)) {
      ASSERT_FALSE(shard.ranks.empty());
      EXPECT_TRUE(std::is_sorted(shard.ranks.begin(), shard.ranks.end()));
      for (const int rank : shard.ranks) EXPECT_EQ(shard_box(c.shape, c.sharding, c.mesh, rank), shard.box);
      for_each_index(c.shape, shard.box, [&](std::size_t i) { ++owned[shard.part][i]; });
    }
    for (const auto& part : owned) EXPECT_EQ(part, std::vector<int>(num_elements, 1));
  }
}

TEST(Sharding, EveryRankWithElementsIsAnOwnerOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    std::vector<int> times(num(c.mesh.size()));
    for (const Shard& shard : owners(c.shape, c.sharding, c.mesh))
      for (const int rank : shard.ranks) ++times[at(rank)];
    for (int rank = 0; rank < c.mesh.size(); ++rank)
      EXPECT_EQ(times[at(rank)], shard_box(c.shape, c.sharding, c.mesh, rank).empty() ? 0 : 1);
  }
}

TEST(Sharding, UnevenPartsDifferByAtMostOneLargerOnesFirst) {
  const Mesh mesh({{"a", 3}, {"b", 2}});
  const Sharding sharding = parse_sharding("S(b,a)", mesh);
  for (std::int64_t rows = 0; rows < 40; ++rows) {
    std::map<std::int64_t, std::int64_t> sizes;  // by where they begin
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const Box box = shard_box({rows}, sharding, mesh, rank);
      EXPECT_GE(box.size(0), rows / 6);
      EXPECT_LE(box.size(0), ceil_div(rows, 6));
      sizes.emplace(box.lo[0], box.size(0));
    }
    std::int64_t before = rows;
    for (const auto& [lo, size] : sizes) {
      if (lo == rows) break;
      EXPECT_LE(size, before);
      before = size;
    }
  }
}

TEST(Sharding, TheFirstNamedAxisIsTheSlowest) {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  EXPECT_EQ(shard_box({8}, parse_sharding("S01", mesh), mesh, 1), (Box{{2, 4}}));
  EXPECT_EQ(shard_box({8}, parse_sharding("S10", mesh), mesh, 1), (Box{{4, 6}}));
}

TEST(Sharding, OwnersWithinABoxAreCutToIt) {
  const Mesh mesh({{"a", 4}, {"b", 2}});
  const auto shards = owners({8, 4}, parse_sharding("S0,R", mesh), mesh, Box{{3, 6}, {1, 2}});
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(shards[0].box, (Box{{3, 4}, {1, 2}}));
  EXPECT_EQ(shards[0].ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(shards[1].box, (Box{{4, 6}, {1, 2}}));
}

TEST(Sharding, PartialSumsAreShardsOfTheirOwn) {
  const Mesh mesh({{"tp", 2}, {"dp", 2}});
  const auto shards = owners({4}, parse_sharding("R+P(tp)", mesh), mesh);
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(shards[0].box, shards[1].box);
  EXPECT_EQ(shards[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(shards[1].ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(shards[1].part, 1);
}

TEST(Sharding, TextRoundTripsByNameAndIsReadByNumber) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const Case c = random_case(random);
    EXPECT_EQ(parse_sharding(to_string(c.sharding), c.mesh), c.sharding);
  }
  const Mesh mesh({{"tp", 2}, {"dp", 2}});
  EXPECT_EQ(to_string(parse_sharding("R, S01", mesh)), "R,S(tp,dp)");
  EXPECT_EQ(parse_sharding("R,S1+P0", mesh), parse_sharding("R,S( dp )+P(tp)", mesh));
}

TEST(Sharding, RefusesTextItCannotRead) {
  const Mesh mesh({{"tp", 2}, {"dp", 2}});
  for (const char* text : {"Q",  "R,",   ",",   "S",     "S2",      "S00", "S0,S0", "S(tp", "S()", "S(pp)", "S(tp,)",
                           "R+", "R+S0", "R+P", "S0+P0", "R+P1+P0", "RR",  "S-1",   "S0 1", "+",   "R)"})
    EXPECT_NE(refusal([&] { parse_sharding(text, mesh); }), "did not throw") << text;
  EXPECT_EQ(refusal([&] { parse_sharding("R,S2", mesh); }),
            "sharding \"R,S2\" names axis 2, but the mesh (tp=2 x dp=2) has 2; number axes from 0");
}

TEST(Sharding, RefusesUnevenSplitsUnlessAsked) {
  const Mesh mesh({{"tp", 4}});
  const Sharding sharding = parse_sharding("S0,R", mesh);
  EXPECT_EQ(refusal([&] {
              check_sharding({10, 3}, sharding, mesh, {.name = "x"});
            }),
            "cannot split dim 0 of \"x\" (10 rows) over axis \"tp\" (4 ranks): 2 rows left over; pad to 12 or pass "
            ".uneven = true");
  EXPECT_NO_THROW(check_sharding({10, 3}, sharding, mesh, {.uneven = true}));
  EXPECT_NO_THROW(check_sharding({12, 3}, sharding, mesh));
  EXPECT_NE(refusal([&] { check_sharding({12}, sharding, mesh); }).find("is for 2 dimensions"), std::string::npos);
  EXPECT_NE(refusal([&] { shard_box({-1, 3}, sharding, mesh, 0); }).find("at least 0"), std::string::npos);
  EXPECT_NE(refusal([&] { shard_box({1, 3}, sharding, mesh, 4); }).find("no rank 4"), std::string::npos);
}

}  // namespace
}  // namespace weft
