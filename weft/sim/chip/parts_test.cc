// The parts of the machine one by one: engine, cache, tracker, memory.
#include <gtest/gtest.h>

#include "weft/sim/chip/cache.h"
#include "weft/sim/chip/engine.h"
#include "weft/sim/chip/memory.h"
#include "weft/sim/chip/toy_chip_test.h"
#include "weft/sim/chip/tracker.h"

namespace weft::sim {
namespace {

TEST(Engine, EventsOfOneInstantComeAsScheduled) {
  Engine engine;
  engine.schedule(5, 1, 0);
  engine.schedule(3, 2, 0);
  engine.schedule(5, 3, 0);
  engine.schedule(3, 4, 0);
  std::vector<int> kinds;
  for (Event event; engine.next(&event);) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector<int>{2, 4, 1, 3}));
  EXPECT_EQ(engine.now(), 5);
}

TEST(Cache, HoldsWhatFitsAndWritesBackWhatChanged) {
  Cache cache(1000, 16, 10);
  EXPECT_EQ(cache.insert(0, 400, true), 0);
  EXPECT_EQ(cache.insert(1, 400, false), 0);
  EXPECT_TRUE(cache.uses(0));
  EXPECT_TRUE(cache.uses(1));
  EXPECT_EQ(cache.insert(2, 900, false), 400);  // both leave; one had changed
  EXPECT_FALSE(cache.uses(0));
  EXPECT_TRUE(cache.uses(2));
  EXPECT_EQ(cache.insert(3, 5000, true), 5000);  // larger than the cache: straight through
  EXPECT_EQ(cache.flush(), 0);
}

TEST(Cache, ManyWaysKeepWhatWasUsedLast) {
  Cache cache(100, 64, 200);
  for (int block = 0; block < 100; ++block) cache.insert(block, 1, false);
  for (int block = 0; block < 50; ++block) cache.uses(block);
  for (int block = 100; block < 140; ++block) cache.insert(block, 1, false);
  int kept = 0;
  for (int block = 0; block < 50; ++block) kept += cache.uses(block) ? 1 : 0;
  EXPECT_GE(kept, 49);
}

TEST(Tracker, FullSetsSpillAndAreFreedAgain) {
  Chip chip = toy_chip();
  chip.tracker_entries = 4;
  chip.tracker_ways = 2;  // two sets: even and odd tiles
  Tracker tracker(chip, 8);
  EXPECT_FALSE(tracker.update(0));
  EXPECT_FALSE(tracker.update(2));
  EXPECT_TRUE(tracker.update(4));   // the even set is full
  EXPECT_FALSE(tracker.update(1));  // the odd one is not
  EXPECT_TRUE(tracker.update(4));   // it stays in memory
  tracker.release(0);
  tracker.release(4);
  EXPECT_FALSE(tracker.update(6));
  EXPECT_EQ(tracker.spills(), 2);
  EXPECT_EQ(tracker.peak_entries(), 4);
}

// Submits `compute` and `communication` requests of 1024 B at once and says in which order they end.
std::string order_of(const Chip& chip, Policy policy, int compute, int communication) {
  Engine engine;
  Memory memory(chip, policy, &engine, 0, 0);
  for (int i = 0; i < communication; ++i)
    memory.submit({1024, Stream::communication, Access::read, Cause::collective_read, 1});
  for (int i = 0; i < compute; ++i) memory.submit({1024, Stream::compute, Access::read, Cause::producer_read, 0});
  std::string order;
  for (Event event; engine.next(&event);)
    if (const auto done = memory.served()) order += done->kind == 0 ? 'c' : 'x';
  return order;
}

TEST(Memory, PoliciesOrderTheStreams) {
  Chip chip = toy_chip();
  chip.dram_entries = 1;  // what the arbiter chose is served before it chooses again
  chip.grant_bytes = 1024;
  EXPECT_EQ(order_of(chip, Policy::fifo, 3, 3), "xxxccc");
  EXPECT_EQ(order_of(chip, Policy::round_robin, 3, 3), "xcxcxc");
  EXPECT_EQ(order_of(chip, Policy::mca, 3, 3), "cccxxx");  // but for the first burst, which was alone when it came
}

TEST(Memory, StarvedCommunicationGoesFirst) {
  Chip chip = toy_chip();
  chip.dram_entries = 1;
  chip.starvation_s = 5e-6;  // the burst that was under way, and two requests of compute of 2 us each
  EXPECT_EQ(order_of(chip, Policy::mca, 5, 2), "ccxxccc");
}

TEST(Memory, TheThresholdFollowsTheIntensity) {
  Chip chip = toy_chip();
  chip.mca_steps = {{0.5, 5}, {0.25, 10}};
  Engine engine;
  Memory memory(chip, Policy::mca, &engine, 0, 0);
  EXPECT_EQ(memory.threshold(), 5);
  memory.submit({512, Stream::compute, Access::read, Cause::producer_read, 0});
  engine.schedule(3'000'000, 1, 0);  // 1 us of 3 is used
  for (Event event; engine.next(&event);)
    if (event.kind == 0) memory.served();
  memory.probe();
  EXPECT_EQ(memory.threshold(), 10);
}

// Two streams that alternate by grants of a quarter burst: each burst changes four times.
TEST(Memory, EveryGrantPaysItsSwitch) {
  Chip chip = toy_chip();
  chip.stream_switch_s = 1e-7;
  chip.grant_bytes = 128;
  Engine engine;
  Memory memory(chip, Policy::round_robin, &engine, 0, 0);
  for (int i = 0; i < 64; ++i) {
    memory.submit({512, Stream::compute, Access::read, Cause::producer_read, 0});
    memory.submit({512, Stream::communication, Access::read, Cause::collective_read, 0});
  }
  for (Event event; engine.next(&event);) memory.served();
  EXPECT_EQ(memory.busy() - memory.lost(), 128 * 1'000'000);
  EXPECT_NEAR(static_cast<double>(memory.lost()), 128 * 4 * 1e5,
              2e6);  // but for the first, which found the queue empty
}

}  // namespace
}  // namespace weft::sim
