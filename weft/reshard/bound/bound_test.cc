// The lower bound: counted by hand where one thing binds, and never above what any schedule takes.
#include "weft/reshard/bound/bound.h"

#include <gtest/gtest.h>

#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

// Hosts of one rank, each with a NIC of 100 bytes a second.
Network hosts_of_one(int hosts) { return one_nic_a_host(hosts, 1, {100, 0}, {1e9, 0}); }

Task rows_for(std::vector<int> senders, std::vector<int> receivers, std::int64_t rows = 100) {
  Task task;
  task.box = whole({rows});
  task.bytes = rows;  // of a byte each
  task.senders = std::move(senders);
  task.receivers = std::move(receivers);
  return task;
}

Loads loads(const std::vector<Task>& tasks, const Network& network) {
  return loads_of(tasks, SiteTable(tasks, network), network);
}

TEST(ReshardBound, AHostThatLacksABoxTakesItInOnce) {
  const Loads one = loads({rows_for({0}, {1})}, hosts_of_one(3));
  EXPECT_DOUBLE_EQ(one.ingress_s, 1);
  EXPECT_DOUBLE_EQ(one.egress_s, 1);
  EXPECT_EQ(one.rest, std::vector<int>{-1}) << "there is one copy";
  // Two boxes from two hosts into one: its NIC binds, the senders' do not.
  const Loads two = loads({rows_for({0}, {2}), rows_for({1}, {2})}, hosts_of_one(3));
  EXPECT_DOUBLE_EQ(two.ingress_s, 2);
  EXPECT_DOUBLE_EQ(two.egress_s, 1);
  EXPECT_DOUBLE_EQ(two.seconds(), 2);
}

TEST(ReshardBound, CopiesAreSentByAllWhoHoldOrWantThem) {
  // One box to three hosts: three copies leave four NICs, the first of them by the sender's.
  const Loads chain = loads({rows_for({0}, {1, 2, 3})}, hosts_of_one(4));
  EXPECT_DOUBLE_EQ(chain.ingress_s, 1);
  EXPECT_DOUBLE_EQ(chain.egress_s, 1);
  // Held twice, wanted once: each holder sends a half.
  const Loads half = loads({rows_for({0, 1}, {2})}, hosts_of_one(3));
  EXPECT_DOUBLE_EQ(half.egress_s, 0.5);
  EXPECT_DOUBLE_EQ(half.seconds(), 1);
}

TEST(ReshardBound, WhatIsThereAlreadyCostsNothing) {
  const Loads there = loads({rows_for({0, 1}, {0, 1})}, hosts_of_one(2));
  EXPECT_EQ(there.seconds(), 0);
  EXPECT_EQ(there.first, std::vector<int>{-1});
  EXPECT_EQ(loads({}, hosts_of_one(2)).seconds(), 0);
}

TEST(ReshardBound, UplinksBindOnlyBetweenRacks) {
  Network network = hosts_of_one(4);
  network.rack_of = {0, 0, 1, 1}, network.uplink = {20, 25};
  EXPECT_EQ(loads({rows_for({0}, {1})}, network).uplink_s, 0);
  EXPECT_DOUBLE_EQ(loads({rows_for({0}, {2, 3})}, network).uplink_s, 5) << "out of rack 0, once for both hosts";
  EXPECT_DOUBLE_EQ(loads({rows_for({0, 2}, {1, 3})}, network).uplink_s, 0) << "each rack holds it";
  network.uplink = {0, 25};  // 0: never in the way
  EXPECT_DOUBLE_EQ(loads({rows_for({0}, {2, 3})}, network).uplink_s, 4);
}

// Three elements by two NICs cannot be had in one and a half each.
TEST(ReshardBound, NicsCarryWholeElements) {
  const Loads three = loads({rows_for({0, 1}, {2}, 3)}, hosts_of_one(3));
  EXPECT_DOUBLE_EQ(three.egress_s, 0.02);
  EXPECT_DOUBLE_EQ(three.ingress_s, 0.03);
}

TEST(ReshardBound, RatesAreThoseOfTheNics) {
  Network network = hosts_of_one(2);
  network.nics[1].bytes_per_s = 50;
  EXPECT_EQ(nic_rates(network), (std::vector<double>{100, 50}));
  EXPECT_DOUBLE_EQ(loads({rows_for({0}, {1})}, network).seconds(), 2);
}

TEST(ReshardBound, ANetworkTwiceAsFastHalvesIt) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_tangle(seed, seed % 2 == 0);
    const std::vector<Task> all = tasks(instance.reshard);
    const double bound = loads(all, instance.network).seconds();
    Network twice = instance.network;
    for (Nic& nic : twice.nics) nic.bytes_per_s *= 2;
    for (double& uplink : twice.uplink) uplink *= 2;
    EXPECT_NEAR(loads(all, twice).seconds(), bound / 2, 1e-9 * bound);
  }
}

TEST(ReshardBound, NoScheduleIsShorter) {
  for (std::uint64_t seed = 500; seed < 560; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_tangle(seed, seed % 2 == 0);
    const std::vector<Task> all = tasks(instance.reshard);
    const double bound = loads(all, instance.network).seconds();
    for (const Choice choice : {Choice::naive, Choice::balance, Choice::ours})
      EXPECT_GE(schedule(all, instance.network, {.choice = choice}).makespan_s, bound * (1 - 1e-9))
          << to_string(choice);
  }
}

// The loads are those of the bound: within its time, every NIC carries what it is given.
TEST(ReshardBound, TheDividedLoadsFitIntoIt) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_tangle(seed, true);
    const std::vector<Task> all = tasks(instance.reshard);
    const Loads found = loads(all, instance.network);
    const std::vector<double> rates = nic_rates(instance.network);
    const auto fits = [&](const Division& division, const std::vector<Demand>& demands) {
      std::vector<double> load(rates.size(), 0.0);
      for (std::size_t d = 0; d < demands.size(); ++d)
        for (std::size_t i = 0; i < demands[d].bins.size(); ++i) load[at(demands[d].bins[i])] += division.share[d][i];
      for (std::size_t nic = 0; nic < rates.size(); ++nic)
        EXPECT_LE(load[nic], found.seconds() * rates[nic] * (1 + 1e-9));
    };
    fits(found.ingress, found.ingress_demands);
    fits(found.egress, found.egress_demands);
  }
}

}  // namespace
}  // namespace weft
