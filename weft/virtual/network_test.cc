// What hosts see of each other: their own device and address, links of the rate that was asked for, and no one else.
#include "weft/virtual/network.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <filesystem>
#include <set>

#include "weft/virtual/made_hosts_test.h"

namespace weft::virtual_hosts {
namespace {

std::set<std::string> devices() {
  std::set<std::string> names;
  if (struct if_nameindex* all = if_nameindex()) {
    for (const struct if_nameindex* one = all; one->if_index != 0; ++one) names.insert(one->if_name);
    if_freenameindex(all);
  }
  return names;
}

TEST_F(MadeHosts, AThreadIsOnAHostAndBackAgain) {
  const VirtualHosts all = made(1);
  const std::string here = std::filesystem::read_symlink("/proc/thread-self/ns/net");
  {
    const InNamespace there(all.hosts[0].name);
    EXPECT_NE(std::filesystem::read_symlink("/proc/thread-self/ns/net"), here);
    EXPECT_EQ(devices(), (std::set<std::string>{"lo", kHostDevice}));
  }
  EXPECT_EQ(std::filesystem::read_symlink("/proc/thread-self/ns/net"), here);
  EXPECT_THROW(InNamespace(host_name(name_, 7)), Error);
  EXPECT_EQ(std::filesystem::read_symlink("/proc/thread-self/ns/net"), here) << "it stays where it was";
}

TEST_F(MadeHosts, ASubnetThatIsTakenIsNotGivenAgain) {
  const VirtualHosts all = made(1);
  const std::string subnet = free_subnet(), taken = all.hosts[0].address;
  EXPECT_EQ(std::count(subnet.begin(), subnet.end(), '.'), 2) << subnet;
  EXPECT_FALSE(taken.starts_with(subnet + ".")) << taken;
}

TEST_F(MadeHosts, ALinkIsNoFasterThanAskedForAndItsBytesAreCounted) {
  constexpr double kRate = 100e6 / 8;
  VirtualHosts all = hosts(2);
  for (VirtualHost& host : all.hosts) host.rate = kRate;
  make_virtual_hosts(all, never);
  double best = 0;
  for (int attempt = 0; attempt < 5 && best < 0.6 * kRate; ++attempt) {  // others may hold the cores
    const SeenLink seen = measure_link(all.hosts[0], all.hosts[1]);
    best = std::max(best, seen.bytes_per_s);
    EXPECT_LT(seen.bytes_per_s, 1.05 * kRate);
    EXPECT_GT(seen.latency_s, 0);
    EXPECT_LT(seen.latency_s, 0.5);
  }
  EXPECT_GT(best, 0.6 * kRate);
  for (VirtualHost& host : all.hosts) read_counters(host);
  ASSERT_TRUE(all.hosts[0].sent && all.hosts[1].received);
  EXPECT_GT(*all.hosts[0].sent, 1'000'000);
  EXPECT_GT(*all.hosts[1].received, 1'000'000);
  EXPECT_LT(*all.hosts[1].sent, *all.hosts[0].sent) << "only acknowledgements go back";
}

TEST_F(MadeHosts, AnAddressThatAHostDoesNotHaveCarriesNothing) {
  const VirtualHosts all = made(1);
  const VirtualHost stranger{.name = all.hosts[0].name, .address = "10.77.254.254"};  // an address nobody has
  EXPECT_THROW(measure_link(all.hosts[0], stranger), Error);
}

}  // namespace
}  // namespace weft::virtual_hosts
