// Which way of an op is kept where ranks have little memory, or do not agree; and that ranks of one group do not wait
// for another's that refuse.
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/small/bags_test.h"
#include "weft/world/cuda/cuda_op.h"
#include "weft/world/world.h"

#include "tests/virtual_gpu/device.h"

namespace weft {
namespace {

Producer product() { return gemm({.m = 520, .n = 264, .k = 8}); }

// Ranks are threads of this process.
class Trials : public testing::Test {
 protected:
  // Collective.
  static std::size_t free_bytes(World& world) {
    world.barrier();
    const std::size_t out = virtual_gpu::Device::get().free_bytes();
    world.barrier();
    return out;
  }
  static void allow(World& world, std::size_t more) {
    const std::size_t used = kArena - free_bytes(world);
    virtual_gpu::most_bytes = used + more;
    world.barrier();
  }
  void TearDown() override { virtual_gpu::most_bytes = SIZE_MAX; }

  static inline const std::size_t kArena = virtual_gpu::Device::get().free_bytes();
};

// With two ops of a short route; beside one of them there is no room for a one_shot, whose inbox is twice the sums.
TEST_F(Trials, TakeTheMemoryOfTwoOpsAndLeaveThatOfOne) {
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank());
    const Mesh mesh = world.mesh({{"tp", 2}});
    const std::size_t all = free_bytes(world);
    std::size_t shortest = 0;
    for (const Route route : {Route::ring, Route::two_shot, Route::ring_shot}) {
      const CudaOp op = world.compile_cuda(product(), all_reduce(mesh, "tp", {.route = route}), {});
      shortest = std::max(shortest, all - free_bytes(world));
    }
    world.compile_cuda(product(), keep(), {});
    const std::size_t kept = all - free_bytes(world);
    allow(world, 2 * shortest - kept + (256 << 10));  // and operands
    const CudaOp op = world.compile_cuda(product(), all_reduce(mesh, "tp"), {.trials = 1});
    EXPECT_LE(all - free_bytes(world), shortest);
    const std::string& why = op.plan().why;
    EXPECT_NE(why.find("one_shot refused: rank "), std::string::npos) << why;
    for (const char* route : {"tried: ring ", "; two_shot ", "; ring_shot "}) {
      const std::size_t at = why.find(route);
      ASSERT_NE(at, std::string::npos) << why;
      EXPECT_NE(why.substr(at).find(" us"), std::string::npos) << why;
      EXPECT_NE(why.substr(at + std::string(route).size(), 7), "refused") << why;
    }
  });
}

TEST_F(Trials, RefuseWhereNoWayFitsAndGoOn) {
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank());
    const Mesh mesh = world.mesh({{"tp", 2}});
    const auto compile = [&] { world.compile_cuda(product(), all_reduce(mesh, "tp"), {.trials = 1}); };
    allow(world, 4096);
    EXPECT_NE(refusal(compile).find(" cannot compile for a GPU: "), std::string::npos) << refusal(compile);
    world.barrier();
    virtual_gpu::most_bytes = SIZE_MAX;
    world.barrier();
    EXPECT_EQ(refusal(compile), "did not throw");
  });
}

TEST_F(Trials, AreTheSameOnAllRanksAndChooseTheOrder) {
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank());
    const Mesh mesh = world.mesh({{"tp", 2}});
    const auto told = [&](const CudaOpOptions& options) {
      return refusal([&] { world.compile_cuda(product(), reduce_scatter(mesh, "tp"), options); });
    };
    EXPECT_EQ(told({.trials = 1 - world.rank()}),
              "rank 0 compiles 4 ways of an op and rank 1 1; give all ranks the same shapes, routes and trials");
    EXPECT_NE(told({.trials = 1 + world.rank()}).find("compile different plans"), std::string::npos);
    EXPECT_NE(told({.order = {.sent_cols = 2 * world.rank()}}).find("compile different plans"), std::string::npos);
    EXPECT_EQ(told({.trials = 1, .order = {.sent_cols = 2}}),
              "trials choose the order of lanes, and one is given; leave out the order, or the trials");
    EXPECT_EQ(told({.order = {.sent_cols = 2}}), "did not throw");
  });
}

TEST_F(Trials, AreNotMadeOfBags) {
  const testing_cuda::BagCase c{2, 8, 64, 2, 4};
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank());
    const Producer bags = testing_cuda::bag_plan_of(c).producers[0];
    const Space space = all_to_all(world.mesh({{"tp", 2}}), "tp", {.stack = Stack::columns});
    const CudaOp op = world.compile_cuda(bags, space, {.trials = 1});
    EXPECT_EQ(op.plan().why.find("tried"), std::string::npos);
    world.barrier();
  });
}

// The group of ranks 2 and 3 refuses; that of 0 and 1 gets its op, and then all do.
TEST_F(Trials, OfAGroupThatRefusesAreNotWaitedForByOthers) {
  World::local(4, [&](World& world) {
    const UseDevice scope(world.rank());
    const Mesh mesh = world.mesh({{"dp", 2}, {"tp", 2}});
    for (const int trials : {0, 1}) {
      const auto told = [&](std::int64_t k) {
        return refusal([&] {
          world.compile_cuda(gemm({.m = 264, .n = 264, .k = k}), reduce_scatter(mesh, "tp"), {.trials = trials});
        });
      };
      const std::string first = told(world.rank() == 3 ? 16 : 8);
      if (world.rank() < 2 && trials == 0)
        EXPECT_EQ(first, "did not throw");
      else
        EXPECT_NE(first.find("ranks "), std::string::npos) << first;
      EXPECT_EQ(told(8), "did not throw");
    }
  });
}

}  // namespace
}  // namespace weft
