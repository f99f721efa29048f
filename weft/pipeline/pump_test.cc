// The thread that moves ops while nobody waits in them: it fires what has become ready, sleeps while nothing can, and a
// step does not end with something under way.
#include "weft/pipeline/pump.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/clock.h"
#include "weft/base/refusal_test.h"
#include "weft/cluster/cluster.h"
#include "weft/pipeline/small_training_test.h"

namespace weft::pipeline {
namespace {

// A row of eight floats from rank 0 to rank 1.
Reshard one_row() {
  Reshard reshard;
  reshard.num_ranks = 2;
  for (const int rank : {0, 1}) reshard.placements.push_back({rank == 0 ? "a" : "b", Mesh({{"one", 1}}), {rank}});
  const ShardedTensor from{"x", {8}, Dtype::f32, 0, {std::vector<Split>(1), {}}};
  ShardedTensor to = from;
  to.placement = 1;
  reshard.transfers = {{{{from, {0}}}, to}};
  return reshard;
}

void post(Pump& pump, Op& op, const void* input) {
  const auto lock = pump.lock();
  op.post(std::span(&input, 1));
  pump.watch(&op);
}

TEST(Pump, SendsWhatNobodyWaitsFor) {
  World::local(2,
               [](World& world) {
                 Pump pump;
                 Op op = world.compile(one_row());
                 const std::vector<float> row{1, 2, 3, 4, 5, 6, 7, 8};
                 if (world.rank() == 0) {
                   post(pump, op, row.data());  // before the receiver has opened: only a later look can send it
                   world.barrier();
                 } else {
                   world.barrier();
                   post(pump, op, nullptr);
                   const auto lock = pump.lock();
                   EXPECT_EQ(static_cast<const float*>(op.view("dst0").data)[7], 8);
                 }
                 world.barrier();  // rank 0 has not touched its op since
                 pump.rest();
                 pump.stop();
               },
               {.threads = 1});
}

// Time alone moves nothing here, so that it looks every 4 ms; on a busy machine less often, but never more.
TEST(Pump, SleepsWhileNothingCanMove) {
  World::local(2,
               [](World& world) {
                 Pump pump;
                 Op op = world.compile(one_row());
                 const std::vector<float> row(8, 1.0f);
                 const std::int64_t begin = now_ns();
                 if (world.rank() == 1) {
                   post(pump, op, nullptr);
                   std::this_thread::sleep_for(std::chrono::milliseconds(60));
                   const std::int64_t looks = pump.looks();
                   EXPECT_LE(static_cast<double>(looks), 3 + 1e-6 * static_cast<double>(now_ns() - begin) / 4);
                   EXPECT_THROW(pump.rest(), Error) << "an op is under way";
                 }
                 world.barrier();
                 if (world.rank() == 0) post(pump, op, row.data());
                 {
                   const auto lock = pump.lock();
                   op.view("dst0");
                 }
                 pump.rest();
                 pump.stop();
               },
               {.threads = 1});
}

// What the pump sleeps by: nothing is due before something is under way, then its arrival is.
TEST(Pump, OpsSayWhenTheirLinksAreDue) {
  WorldOptions options{.threads = 1};
  options.link = parse_link("1gbit,100ms");
  World::local(
      2,
      [](World& world) {
        Op op = world.compile(one_row());
        const std::vector<float> row(8, 1.0f);
        const void* input = world.rank() == 0 ? row.data() : nullptr;
        const std::int64_t begin = now_ns();
        if (world.rank() == 1) {
          op.post(std::span(&input, 1));
          EXPECT_FALSE(op.ready());
          EXPECT_EQ(op.due_ns(), INT64_MAX);
        }
        world.barrier();
        if (world.rank() == 0) {
          op.post(std::span(&input, 1));
          op.view("dst0");  // until it is on its way
        }
        world.barrier();
        if (world.rank() == 1 && !op.ready()) {  // a machine may be so busy that it has arrived by now
          EXPECT_GT(op.due_ns(), begin + 100'000'000);
          EXPECT_LT(op.due_ns(), now_ns() + 100'000'000);
        }
        op.view("dst0");
      },
      options);
}

}  // namespace
}  // namespace weft::pipeline
