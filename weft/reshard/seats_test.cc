#include "weft/reshard/seats.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

const Link kNicLink{.bytes_per_s = 1e9}, kMemoryLink{.bytes_per_s = 1e10};

// One rank on the source's host, two on each of the destination's two hosts.
Reshard one_to_four() {
  return one_tensor({8, 8}, Dtype::f32, hosts_by_devices(1, 1), "R,R", hosts_by_devices(2, 2), "S0,S1");
}
Network one_and_two_and_two() { return one_nic_a_host(std::vector<int>{0, 1, 1, 2, 2}, kNicLink, kMemoryLink); }

TEST(Seats, EveryHostTakesTheFirstRanksOfItsBlock) {
  const Network network = one_and_two_and_two();
  EXPECT_EQ(ranks_on_hosts(network), (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(seats_per_host(network), 2);
  const Seated all = seated(one_to_four(), network, hosts_in_blocks(6, 2));
  EXPECT_EQ(all.reshard.num_ranks, 6);
  EXPECT_EQ(all.reshard.placements[0].ranks, (std::vector<int>{0}));  // rank 1 holds nothing
  EXPECT_EQ(all.reshard.placements[1].ranks, (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(all.network.nic_of, (std::vector<int>{0, 0, 1, 1, 2, 2}));
  check_reshard(all.reshard);
}

TEST(Seats, RanksOfAHostNeedNotBeNeighbours) {
  const Seated all = seated(one_to_four(), one_and_two_and_two(), {2, 1, 0, 2, 1});
  EXPECT_EQ(all.reshard.placements[0].ranks, (std::vector<int>{2}));
  EXPECT_EQ(all.reshard.placements[1].ranks, (std::vector<int>{1, 4, 0, 3}));
  EXPECT_EQ(all.network.nic_of, (std::vector<int>{2, 1, 0, 2, 1}));
}

TEST(Seats, EveryRankKeepsItsNic) {
  Network network = one_nic_a_host(std::vector<int>{0, 1, 1, 2, 2}, kNicLink, kMemoryLink);
  network.nics.push_back({2, 2e9});  // the last rank has one of its own
  network.nic_of[4] = 3;
  EXPECT_EQ(seated(one_to_four(), network, hosts_in_blocks(6, 2)).network.nic_of, (std::vector<int>{0, 0, 1, 1, 2, 3}));
}

TEST(Seats, AWorldWithOtherHostsIsRefused) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 1, 1, 2}, {0, 0, 1, 1, 1}, {0, 1, 1, 2, 2, 3}}) {
    const std::string said = refusal([&] { seated(one_to_four(), one_and_two_and_two(), hosts); });
    EXPECT_NE(said.find("3 hosts with 1, 2, 2 ranks each"), std::string::npos) << said;
    EXPECT_NE(said.find("weft cluster run -n 6"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace weft
