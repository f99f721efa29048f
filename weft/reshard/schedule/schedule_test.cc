#include "weft/reshard/schedule/schedule.h"

#include <chrono>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

constexpr Strategy kStrategies[] = {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather,
                                    Strategy::broadcast};
constexpr Choice kOthers[] = {Choice::naive, Choice::balance, Choice::dfs, Choice::greedy};

void expect_sound(const Schedule& schedule, const std::vector<Task>& tasks, const Network& network) {
  const auto found = problems(schedule, tasks, network);
  EXPECT_TRUE(found.empty()) << found.size() << " problems, the first: " << found[0];
}

Schedule checked(const std::vector<Task>& tasks, const Network& network, Strategy strategy, Choice choice) {
  const Schedule s = schedule(tasks, network, {.strategy = strategy, .choice = choice});
  SCOPED_TRACE(std::string(to_string(strategy)) + " " + std::string(to_string(choice)));
  expect_sound(s, tasks, network);
  return s;
}

TEST(Schedule, TheNineCasesGiveTheKnownFigures) {
  for (const NineCase& c : nine_cases()) {
    SCOPED_TRACE(std::string(c.source) + " to " + c.destination);
    const Instance instance = instance_of(c);
    const std::vector<Task> all = tasks(instance.reshard);
    const auto makespan = [&](Choice choice) {
      return checked(all, instance.network, Strategy::broadcast, choice).makespan_s / instance.unit_s;
    };
    EXPECT_NEAR(makespan(Choice::naive), c.naive, 1e-9);
    EXPECT_NEAR(makespan(Choice::balance), c.balance, 1e-9);
    EXPECT_NEAR(makespan(Choice::ours), c.optimum, 1e-9);
    const Schedule ours = schedule(all, instance.network);
    EXPECT_NEAR(ours.lower_bound_s / instance.unit_s, c.optimum, 1e-9);
    EXPECT_TRUE(ours.optimal) << ours.why;
  }
}

TEST(Schedule, EveryStrategyWithEveryChoiceReachesEveryReceiverOnce) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = seed % 2 ? random_case(seed) : random_tangle(seed, seed % 4 == 0);
    const std::vector<Task> all = tasks(instance.reshard);
    for (const Strategy strategy : kStrategies) {
      double shortest = 0;
      for (const Choice choice : kOthers) {
        const double makespan = checked(all, instance.network, strategy, choice).makespan_s;
        shortest = choice == Choice::naive ? makespan : std::min(shortest, makespan);
      }
      EXPECT_LE(checked(all, instance.network, strategy, Choice::ours).makespan_s, shortest * (1 + 1e-9));
    }
  }
}

// One task to 3 hosts x 4 devices, in pushes of the whole box across hosts.
TEST(Schedule, StrategiesCostWhatTheirDefinitionSays) {
  const Mesh source = hosts_by_devices(1, 1), destination = hosts_by_devices(3, 4);
  const Reshard reshard = one_tensor({1200}, Dtype::f32, source, "R", destination, "R");
  const Network network = one_nic_a_host(hosts_side_by_side(source, destination), {4800, 0}, {1e9, 0});
  const std::vector<Task> all = tasks(reshard);
  const auto seconds = [&](Strategy strategy) { return checked(all, network, strategy, Choice::naive).makespan_s; };
  EXPECT_NEAR(seconds(Strategy::send_recv), 12, 1e-9);
  EXPECT_NEAR(seconds(Strategy::local_allgather), 3, 1e-9);
  EXPECT_NEAR(seconds(Strategy::global_allgather), 1 + 11.0 / 12, 1e-9);
  EXPECT_NEAR(seconds(Strategy::broadcast), 1, 1e-9);
}

TEST(Schedule, WhatCannotBeCutEvenlyIsSentToEveryDevice) {
  const Mesh source = hosts_by_devices(1, 1), destination = hosts_by_devices(2, 4);
  const Reshard reshard = one_tensor({1001}, Dtype::f32, source, "R", destination, "R");
  const Network network = one_nic_a_host(hosts_side_by_side(source, destination), {4004, 0}, {1e9, 0});
  EXPECT_NEAR(checked(tasks(reshard), network, Strategy::local_allgather, Choice::naive).makespan_s, 8, 1e-9);
}

TEST(Schedule, RandomCasesAreNeverWorseThanOtherChoicesAndNearTheBound) {
  double sum = 0, worst = 1;
  int counted = 0;
  for (std::uint64_t seed = 1000; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_case(seed);
    const std::vector<Task> all = tasks(instance.reshard);
    const Schedule ours = checked(all, instance.network, Strategy::broadcast, Choice::ours);
    for (const Choice choice : kOthers)
      EXPECT_LE(ours.makespan_s, schedule(all, instance.network, {.choice = choice}).makespan_s * (1 + 1e-9))
          << to_string(choice);
    const double ratio = ours.makespan_s / ours.lower_bound_s;
    sum += ratio, ++counted, worst = std::max(worst, ratio);
  }
  RecordProperty("mean_ratio", std::to_string(sum / counted));
  RecordProperty("worst_ratio", std::to_string(worst));
  EXPECT_LE(sum / counted, 1.01);
  EXPECT_LE(worst, 1.25);
}

// Cuts fall on whole indices, so tensors of tens of elements may miss the bound by a slice; nothing else may.
TEST(Schedule, WhereUplinksDoNotBindOursMeetsTheBound) {
  double sum = 0;
  int counted = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Instance instance = random_tangle(seed, false);
    for (Transfer& transfer : instance.reshard.transfers) {
      for (std::int64_t& size : transfer.destination.shape) size *= 1000;
      transfer.parts[0].tensor.shape = transfer.destination.shape;
    }
    const std::vector<Task> all = tasks(instance.reshard);
    const Schedule ours = checked(all, instance.network, Strategy::broadcast, Choice::ours);
    if (ours.lower_bound_s == 0) continue;
    EXPECT_LE(ours.makespan_s / ours.lower_bound_s, 1.002) << ours.why;
    sum += ours.makespan_s / ours.lower_bound_s, ++counted;
  }
  EXPECT_GT(counted, 150);
  EXPECT_LE(sum / counted, 1.0005);
}

TEST(Schedule, WhereUplinksBindOursIsNearTheBound) {
  double sum = 0;
  int counted = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_tangle(seed, true);
    const std::vector<Task> all = tasks(instance.reshard);
    const Schedule ours = checked(all, instance.network, Strategy::broadcast, Choice::ours);
    if (ours.lower_bound_s > 0) sum += ours.makespan_s / ours.lower_bound_s, ++counted;
  }
  EXPECT_GT(counted, 150);
  EXPECT_LE(sum / counted, 1.01);  // the bound does not look at NICs and uplinks together
}

TEST(Schedule, OverlappingMeshesMoveOnlyWhatIsNotThere) {
  // The same ranks, the same layout: nothing crosses. Then rows to columns over two hosts of one device: a quarter each
  // way.
  const Mesh mesh = hosts_by_devices(2, 1);
  Reshard reshard = one_tensor({8, 8}, Dtype::f32, mesh, "S0,R", mesh, "S0,R");
  reshard.placements[1].ranks = {0, 1};
  reshard.num_ranks = 2;
  const Network network = one_nic_a_host(2, 1, {256, 0}, {1e9, 0});
  EXPECT_EQ(checked(tasks(reshard), network, Strategy::broadcast, Choice::ours).makespan_s, 0);
  reshard.transfers[0].destination.sharding = parse_sharding("R,S0", mesh);
  EXPECT_NEAR(checked(tasks(reshard), network, Strategy::broadcast, Choice::ours).makespan_s, 0.25, 1e-9);
}

TEST(Schedule, ScalarsTravelWhole) {
  const Mesh source = hosts_by_devices(2, 2), destination = hosts_by_devices(3, 2);
  const std::vector<Task> all = tasks(one_tensor({}, Dtype::i64, source, "", destination, ""));
  const Network network = one_nic_a_host(hosts_side_by_side(source, destination), {8, 0}, {1e9, 0});
  for (const Strategy strategy : kStrategies)
    for (const Choice choice : {Choice::naive, Choice::greedy, Choice::ours}) checked(all, network, strategy, choice);
  EXPECT_NEAR(schedule(all, network).makespan_s, 1, 1e-9);
}

TEST(Schedule, ThousandsOfTasksArePlannedQuickly) {
  const Mesh mesh = hosts_by_devices(64, 8);
  const Network network = one_nic_a_host(128, 8, {1e9, 0}, {1e9, 0});
  for (const Shape& shape : {Shape{8192, 4096}, Shape{8191, 4093}}) {
    const Reshard reshard = one_tensor(shape, Dtype::f32, mesh, "S0,R", mesh, "R,S01");
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Task> all = tasks(reshard);
    const Schedule ours = schedule(all, network);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(all.size(), 64u * 512u);
    EXPECT_NEAR(ours.makespan_s / ours.lower_bound_s, 1, 1e-6);
    EXPECT_LT(took.count(), 20);  // loose, for sanitizers and busy machines; bench/reshard_cases measures it
    expect_sound(ours, all, network);
  }
}

TEST(Schedule, RefusesWhatItCannotPlan) {
  const Instance instance = instance_of(nine_cases()[0]);
  const std::vector<Task> all = tasks(instance.reshard);
  EXPECT_NE(refusal([&] { schedule(all, instance.network, {.strategy = Strategy::automatic}); }).find("auto"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              schedule(all, one_nic_a_host(1, 4, {1, 0}, {1, 0}));
            }).find("names rank 8"),
            std::string::npos);
  EXPECT_EQ(refusal([] { parse_choice("best"); }),
            "unknown choice \"best\"; use one of naive, balance, dfs, greedy, ours");
  EXPECT_EQ(parse_strategy("local-allgather"), Strategy::local_allgather);
}

}  // namespace
}  // namespace weft
