#include "weft/mesh/mesh.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

TEST(Mesh, CountsRanksRowMajor) {
  const Mesh mesh({{"pp", 2}, {"tp", 4}});
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.coordinates(6), (std::vector<int>{1, 2}));
  EXPECT_EQ(mesh.rank_at({1, 2}), 6);
  EXPECT_EQ(to_string(mesh), "pp=2 x tp=4");
}

TEST(Mesh, CoordinatesAndRanksAreInverse) {
  const Mesh mesh({{"a", 3}, {"b", 1}, {"c", 4}, {"d", 2}});
  for (int rank = 0; rank < mesh.size(); ++rank) EXPECT_EQ(mesh.rank_at(mesh.coordinates(rank)), rank);
}

TEST(Mesh, GroupsOfAnAxisPartitionTheRanks) {
  const Mesh mesh({{"a", 3}, {"b", 2}, {"c", 4}});
  for (const Axis& axis : mesh.axes()) {
    std::set<int> seen;
    for (const Group& group : mesh.groups(axis.name)) {
      EXPECT_EQ(group.size(), axis.size);
      for (int i = 0; i < group.size(); ++i) {
        EXPECT_TRUE(seen.insert(group.ranks[i]).second);
        const Group same = mesh.group(axis.name, group.ranks[i]);
        EXPECT_EQ(same.ranks, group.ranks);
        EXPECT_EQ(same.position, i);
      }
    }
    EXPECT_EQ(int_size(seen), mesh.size());
  }
}

TEST(Mesh, AGroupOverSeveralAxesFollowsTheirNamedOrder) {
  const Mesh mesh({{"dp", 2}, {"pp", 2}, {"tp", 3}});
  EXPECT_EQ(mesh.group({"dp", "tp"}, 7).ranks, (std::vector<int>{0, 1, 2, 6, 7, 8}));
  EXPECT_EQ(mesh.group({"dp", "tp"}, 7).position, 4);
  EXPECT_EQ(mesh.group({"tp", "dp"}, 7).ranks, (std::vector<int>{0, 6, 1, 7, 2, 8}));
  EXPECT_EQ(mesh.group({"tp", "dp"}, 7).position, 3);
  EXPECT_EQ(mesh.group(std::vector<std::string>{}, 7).ranks, (std::vector<int>{7}));
  EXPECT_EQ(mesh.group({"tp"}, 4), mesh.group("tp", 4));
}

TEST(Mesh, GroupPositionsWrap) {
  const Group group = Mesh({{"tp", 4}}).group("tp", 3);
  EXPECT_EQ(group.at(group.position + 1), 0);
  EXPECT_EQ(group.at(-1), 3);
}

TEST(Mesh, LiesOverHosts) {
  const Mesh mesh = hosts_by_devices(2, 3);
  EXPECT_EQ(mesh.num_hosts(), 2);
  EXPECT_EQ(mesh.hosts(), (std::vector<int>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(mesh.group("device", 4).ranks, (std::vector<int>{3, 4, 5})) << "those of the second host";
  EXPECT_EQ(Mesh({{"tp", 4}}).num_hosts(), 1);
  EXPECT_EQ(hosts_in_blocks(5, 2), (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(Mesh, WithoutAxesIsOneRank) {
  EXPECT_EQ(Mesh().size(), 1);
  EXPECT_EQ(Mesh(), Mesh(std::vector<Axis>{}));
  EXPECT_NE(Mesh(), Mesh({{"tp", 1}}));
}

TEST(Mesh, RefusesWhatItCannotBe) {
  EXPECT_EQ(refusal([] { Mesh({{"tp", 0}}); }), "axis \"tp\" has 0 ranks; an axis needs at least 1");
  EXPECT_EQ(refusal([] {
              Mesh({{"tp", 2}, {"tp", 2}});
            }),
            "axes 0 and 1 are both named \"tp\"; give every axis its own name");
  EXPECT_NE(refusal([] {
              Mesh({{"a", 1 << 30}, {"b", 1 << 30}, {"c", 1 << 30}});
            }).find("smaller axes"),
            std::string::npos);
  EXPECT_NE(refusal([] { Mesh({{"a,b", 1}}); }).find("cannot name an axis"), std::string::npos);
  EXPECT_NE(refusal([] { Mesh({{"tp", 2}}, {0}); }).find("one host for every rank"), std::string::npos);
  EXPECT_NE(refusal([] { Mesh({{"tp", 2}}, {0, 9}); }).find("rank 1 is on host 9"), std::string::npos);
  EXPECT_NE(refusal([] { hosts_by_devices(1 << 20, 1 << 20); }).find("ranks"), std::string::npos);
}

TEST(Mesh, NamesTheAxesThereAre) {
  const Mesh mesh({{"tp", 2}, {"dp", 2}});
  EXPECT_EQ(refusal([&] { mesh.axis("pp"); }), "no axis \"pp\" in the mesh; use one of tp, dp");
  EXPECT_EQ(refusal([&] { mesh.coordinates(4); }), "no rank 4 in a mesh of 4; use 0 to 3");
  EXPECT_EQ(refusal([&] { mesh.group({"tp", "tp"}, 0); }), "axis \"tp\" is named twice in a group; name it once");
}

}  // namespace
}  // namespace weft
