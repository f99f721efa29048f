// Ranks on two hosts: the bits of shared memory, and as many bytes through each host's link as the plans say.
#include <cstring>
#include <mutex>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/weft.h"

#include "tests/hosts/host_ranks.h"
#include "tests/hosts/virtual_hosts.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

class Hosts : public TwoHosts {
 protected:
  void expect_bits(int ranks_per_host, const char* transport) const;
  void expect_bytes(int ranks_per_host, const Json& before) const;
  static void expect_success(const std::vector<Running>& running) {
    for (const Running& one : running) {
      const Ended ended = wait_for(one);
      EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
    }
  }
};

// What ranks have left, against ranks that are threads of this process.
void Hosts::expect_bits(int ranks_per_host, const char* transport) const {
  const int size = 2 * ranks_per_host;
  std::vector<std::vector<float>> over_memory(num(size));
  World::local(size, [&](World& world) { over_memory[world.rank()] = smoke_outputs(world); });
  Json hosts = Json::array();
  for (int rank = 0; rank < size; ++rank) hosts.push_back(rank / ranks_per_host);
  for (int rank = 0; rank < size; ++rank) {
    const std::string bits = note(fmt::format("bits{}", rank));
    ASSERT_EQ(bits.size(), over_memory[rank].size() * sizeof(float));
    EXPECT_EQ(std::memcmp(bits.data(), over_memory[rank].data(), bits.size()), 0) << "rank " << rank;
    const Json seen = Json::parse(note(fmt::format("seen{}", rank)));
    EXPECT_EQ(seen["transport"], transport);
    EXPECT_EQ(seen["hosts"], hosts);
  }
}

TEST_F(Hosts, BitsAreThoseOfSharedMemoryOneRankEach) {
  expect_success({mpirun(1, {"smoke"})});
  expect_bits(1, "tls");
}

TEST_F(Hosts, BitsAreThoseOfSharedMemoryTwoRanksEach) {
  expect_success({mpirun(2, {"smoke"})});
  expect_bits(2, "tls");
}

TEST_F(Hosts, BitsAreThoseOfSharedMemoryOverUcxOnATrustedNetwork) {
  if (!available(WireKind::ucx)) GTEST_SKIP() << "this build has no UCX (libucx-dev)";
  setenv("WEFT_LINK", "ucx,trusted", 1);
  expect_success({mpirun(2, {"smoke"})});
  unsetenv("WEFT_LINK");  // before ranks that are threads
  expect_bits(2, "ucx");
}

// Never less than the plans say, and no more than headers, signals, acknowledgements and TLS add.
void Hosts::expect_bytes(int ranks_per_host, const Json& before) const {
  constexpr double kOverhead = 1.10;
  const Json after = counters();
  const Json told = Json::parse(note("traffic0"));
  for (int rank = 0; rank < 2 * ranks_per_host; ++rank) {
    const Json own = Json::parse(note(fmt::format("traffic{}", rank)));
    EXPECT_EQ(own["sent"], own["told"]) << "rank " << rank;
  }
  for (int index = 0; index < 2; ++index)
    for (const auto& [counter, key] : {std::pair{"tx_bytes", "out"}, {"rx_bytes", "in"}}) {
      const double bytes = after[index][counter].get<double>() - before[index][counter].get<double>();
      const double expected = told[key][index];
      EXPECT_GT(expected, 8e6);
      EXPECT_GE(bytes, expected) << counter << " of " << host(index);
      EXPECT_LE(bytes, kOverhead * expected) << counter << " of " << host(index);
    }
}

TEST_F(Hosts, LinksCarryWhatThePlansSay) {
  const Json before = counters();
  expect_success({mpirun(1, {"send"})});
  expect_bytes(1, before);
}

TEST_F(Hosts, LinksCarryWhatThePlansSayBetweenTwoRanksEach) {
  const Json before = counters();
  expect_success({mpirun(2, {"send"})});
  expect_bytes(2, before);
}

// /dev/shm and process numbers are the same on both: neither the wire nor Weft may take the short cut.
TEST_F(Hosts, NothingCrossesBesideTheLinkBetweenMereNamespaces) {
  const Json before = counters();
  expect_success(launch_both(2, {"send"}, Apart::namespaces));
  expect_bytes(2, before);
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  if (weft::testing::is_host_rank(argc, argv)) return weft::testing::run_host_rank(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
