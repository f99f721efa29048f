// From a task to hops, step by step: the hosts and NICs it touches, the trees of each strategy, and what they load.
#include "weft/reshard/schedule/slices.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/reshard/schedule/forest.h"
#include "weft/reshard/schedule/rack_tasks.h"
#include "weft/reshard/schedule/resources.h"

namespace weft {
namespace {

// Four hosts of two ranks, one NIC of a GB/s each, in one rack or in two.
Network four_hosts(bool racks) {
  Network network = one_nic_a_host(4, 2, {1e9, 0}, {100e9, 0});
  if (racks) network.rack_of = {0, 0, 1, 1}, network.uplink = {0.5e9, 0.5e9};
  return network;
}

Task task_of(std::vector<int> senders, std::vector<int> receivers, std::int64_t rows = 8) {
  Task task;
  task.box = whole({rows, 4});
  task.bytes = task.box.volume() * 4;
  task.senders = std::move(senders);
  task.receivers = std::move(receivers);
  return task;
}

Sites sites_of_one(const Task& task, const Network& network) { return SiteTable({task}, network).of(0); }

// How many elements of each row of the box each rank gets; a root that wants it counts as one that got it.
std::map<int, std::vector<int>> rows_got(const std::vector<Chunk>& chunks, const Task& task) {
  std::map<int, std::vector<int>> got;
  for (const int rank : task.receivers) got[rank].resize(num(task.box.size(0)));
  const auto arrive = [&](int rank, const Box& box) {
    for (std::int64_t row = box.lo[0]; row < box.hi[0]; ++row)
      if (got.contains(rank)) got[rank][at(row)] += static_cast<int>(box.size(1));
  };
  for (const Chunk& chunk : chunks) {
    std::set<int> have{chunk.root};
    EXPECT_TRUE(std::binary_search(task.senders.begin(), task.senders.end(), chunk.root));
    arrive(chunk.root, chunk.box);
    for (const Hop& hop : chunk.hops) {
      EXPECT_TRUE(have.contains(hop.from)) << "rank " << hop.from << " does not have it yet";
      have.insert(hop.to);
      arrive(hop.to, chunk.box);
    }
  }
  return got;
}

void expect_once(const std::vector<Chunk>& chunks, const Task& task) {
  for (const auto& [rank, rows] : rows_got(chunks, task))
    EXPECT_EQ(rows, std::vector<int>(rows.size(), static_cast<int>(task.box.size(1)))) << "rank " << rank;
}

std::vector<Chunk> chunks_of(Strategy strategy, const Task& task, const Network& network) {
  const Sites sites = sites_of_one(task, network);
  const Resources resources(network);
  std::vector<Job> jobs;
  add_jobs(strategy, chain(task, 0, sites, network, task.senders[0], first_entries(sites)), task, sites, resources,
           jobs);
  std::vector<Chunk> out;
  for (const Job& job : jobs) out.insert(out.end(), job.chunks.begin(), job.chunks.end());
  return out;
}

std::int64_t bytes_between_hosts(const std::vector<Chunk>& chunks, const Network& network) {
  std::int64_t bytes = 0;
  for (const Chunk& chunk : chunks)
    for (const Hop& hop : chunk.hops)
      if (network.host_of(hop.from) != network.host_of(hop.to)) bytes += chunk.bytes;
  return bytes;
}

TEST(Sites, HostsThatHoldAreApartFromHostsThatLack) {
  Network network = four_hosts(false);
  network.nics.push_back({0, 2e9});  // a second one on host 0, near rank 1
  network.nic_of[1] = 4;
  const Sites sites = sites_of_one(task_of({0, 1}, {1, 2, 3, 6}), network);
  ASSERT_EQ(sites.holding.size(), 1u);
  EXPECT_EQ(sites.holding[0].holders, (std::vector<int>{0, 1}));
  EXPECT_EQ(sites.holding[0].receivers, std::vector<int>{1});
  EXPECT_EQ(sites.holding[0].doors, (std::vector<Door>{{0, 0}, {4, 1}}));
  ASSERT_EQ(sites.wanting.size(), 2u);
  EXPECT_EQ(sites.wanting[0].receivers, (std::vector<int>{2, 3}));
  EXPECT_EQ(sites.wanting[0].doors, (std::vector<Door>{{1, 2}})) << "one per NIC";
  EXPECT_EQ(sites.exits, (std::vector<int>{0, 4}));
  EXPECT_EQ(sites.relays, (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(first_entries(sites), (std::vector<int>{2, 6}));
}

TEST(Sites, TasksOfTheSameRanksShareThem) {
  const Network network = four_hosts(false);
  const SiteTable table({task_of({0}, {2}), task_of({0}, {4}), task_of({0}, {2}, 16)}, network);
  EXPECT_EQ(table.num_sites(), 2);
  EXPECT_EQ(table.id(0), table.id(2));
  EXPECT_NE(table.id(0), table.id(1));
  EXPECT_NE(refusal([&] { SiteTable({task_of({0}, {8})}, network); }).find("names rank 8"), std::string::npos);
  EXPECT_NE(refusal([&] { SiteTable({task_of({}, {1})}, network); }).find("0 senders"), std::string::npos);
}

TEST(Slices, EveryStrategyBringsEveryRowOnce) {
  for (const bool racks : {false, true})
    for (const Strategy strategy :
         {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather, Strategy::broadcast})
      for (const Task& task : {task_of({0}, {2, 3, 4, 5, 6, 7}), task_of({0, 1}, {0, 1, 2, 5}),
                               task_of({0, 4}, {1, 5, 6, 7}), task_of({3}, {3}), task_of({0}, {2, 4, 5, 6, 7}, 7)})
        expect_once(chunks_of(strategy, task, four_hosts(racks)), task);
}

TEST(Slices, StrategiesSendWhatTheirNamesSay) {
  const Network network = four_hosts(false);
  const Task task = task_of({0}, {2, 3, 4, 5, 6, 7});
  EXPECT_EQ(bytes_between_hosts(chunks_of(Strategy::send_recv, task, network), network), 6 * task.bytes);
  EXPECT_EQ(bytes_between_hosts(chunks_of(Strategy::local_allgather, task, network), network), 3 * task.bytes);
  EXPECT_EQ(bytes_between_hosts(chunks_of(Strategy::broadcast, task, network), network), 3 * task.bytes);
  // Parts of a seventh and less cannot be had evenly of 7 rows for two devices: it falls back to one copy per device.
  const Task odd = task_of({0}, {2, 3}, 7);
  Task prime = odd;
  prime.box = whole({7, 3}), prime.bytes = 7 * 3 * 4;
  EXPECT_EQ(bytes_between_hosts(chunks_of(Strategy::local_allgather, prime, network), network), 2 * prime.bytes);
}

// Between racks a box goes once: the chain leaves the sender's rack last.
TEST(Slices, AChainCrossesToAnotherRackOnce) {
  const Network network = four_hosts(true);
  for (const int root : {0, 2, 4, 7}) {
    std::vector<int> others;
    for (int rank = 0; rank < 8; ++rank)
      if (network.host_of(rank) != network.host_of(root)) others.push_back(rank);
    const Task task = task_of({root}, others);
    int crossings = 0;
    for (const Chunk& chunk : chunks_of(Strategy::broadcast, task, network))
      for (const Hop& hop : chunk.hops)
        crossings += network.rack_of[at(network.host_of(hop.from))] != network.rack_of[at(network.host_of(hop.to))];
    EXPECT_EQ(crossings, 1) << "from rank " << root;
  }
}

TEST(Slices, AJobTakesAsLongAsItsBusiestLine) {
  const Network network = four_hosts(true);
  const Resources resources(network);
  const Task task = task_of({0}, {2, 4});
  const double bytes = 8 * 4 * 4;
  const std::vector<Use> uses = resources.uses(chunks_of(Strategy::broadcast, task, network));
  std::map<int, double> by;
  for (const Use& use : uses) by[use.resource] += use.bytes;
  EXPECT_EQ(by[resources.out(0)], bytes);
  EXPECT_EQ(by[resources.in(1)], bytes);
  EXPECT_EQ(by[resources.out(1)], bytes) << "host 1 sends it on";
  EXPECT_EQ(by[resources.up(0)], bytes);
  EXPECT_EQ(by[resources.down(1)], bytes);
  EXPECT_FALSE(by.contains(resources.up(1)));
  EXPECT_DOUBLE_EQ(resources.seconds(uses), bytes / 0.5e9) << "the uplink is the slowest";
  EXPECT_TRUE(resources.has_uplinks());
  EXPECT_FALSE(Resources(four_hosts(false)).has_uplinks());
}

// Two outlets share the copies of a slice: two trees, which together reach every host.
TEST(Forest, SendersShareTheCopies) {
  const Network network = four_hosts(false);
  const Task task = task_of({0, 2}, {4, 5, 6, 7});
  const Sites sites = sites_of_one(task, network);
  const Slice slice{0, task.box, {{0, 1}, {2, 1}}, first_entries(sites)};
  const std::vector<Chunk> chunks = forest(slice, task, sites, network);
  expect_once(chunks, task);
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_EQ((std::set<int>{chunks[0].root, chunks[1].root}), (std::set<int>{0, 2}));
}

TEST(RackTasks, EveryRackServesItselfAndOthersShareTheRest) {
  const Network network = four_hosts(true);
  // Held in both racks: each takes its own, and nothing crosses.
  const RackTasks both = rack_tasks({task_of({0, 4}, {2, 6})}, network);
  ASSERT_EQ(both.tasks.size(), 2u);
  for (const Task& task : both.tasks)
    EXPECT_EQ(network.rack_of[at(network.host_of(task.senders[0]))],
              network.rack_of[at(network.host_of(task.receivers[0]))]);
  EXPECT_EQ(both.origin, (std::vector<int>{0, 0}));
  // Wanted elsewhere, by a third rack: the uplinks of both holders carry about half each.
  Network three = one_nic_a_host(6, 1, {1e9, 0}, {100e9, 0});
  three.rack_of = {0, 0, 1, 1, 2, 2}, three.uplink = {0.5e9, 0.5e9, 2e9};
  const Task wanted = task_of({0, 2}, {4});
  const RackTasks split = rack_tasks({wanted}, three);
  std::int64_t bytes = 0, rows = 0;
  for (const Task& task : split.tasks) {
    EXPECT_EQ(task.senders.size(), 1u);
    EXPECT_NEAR(static_cast<double>(task.bytes), wanted.bytes / 2.0, wanted.bytes / 8.0);
    bytes += task.bytes, rows += task.box.size(0);
  }
  EXPECT_EQ(split.tasks.size(), 2u);
  EXPECT_EQ(bytes, wanted.bytes);
  EXPECT_EQ(rows, 8);
  const RackTasks none = rack_tasks({wanted, wanted}, three, 0);
  EXPECT_EQ(none.tasks.size(), 2u) << "a share of nothing leaves tasks as they are";
  EXPECT_EQ(none.tasks[0].senders, wanted.senders);
}

}  // namespace
}  // namespace weft
