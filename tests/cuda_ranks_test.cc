// Ops for GPUs whose ranks have a launch each (weft/world/cuda): threads that share the GPU, and processes that share
// it through MPS, against the reference executor. Where there is no GPU, or no MPS, tests are skipped by name.
#include <chrono>
#include <csignal>
#include <thread>

#include "weft/exec/cuda/ranks/peer_memory.h"
#include "weft/exec/cuda/small/bags_test.h"
#include "weft/transport/join/launch.h"
#include "weft/world/cuda/cuda_op.h"
#include "weft/world/world.h"

#include "tests/child_main.h"
#include "tests/cuda_bags.h"
#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::bag_plan_of;
using testing_cuda::BagCase;
using testing_cuda::BagInputs;
using testing_cuda::BagsOnDevice;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::error_of;
using testing_cuda::everybody;
using testing_cuda::gemv_case;
using testing_cuda::OnDevice;
using testing_cuda::operands_of;
using testing_cuda::plan_of;
using testing_cuda::reference_of;
using testing_cuda::tolerance;

// Three runs, each looked at; then five that nobody waits for. Returns the largest error.
double largest_error(World& world, const CudaCase& c) {
  const Plan plan = plan_of(c);
  CudaOp op = world.compile_cuda(plan, everybody(world), {});
  double worst = 0;
  std::vector<OnDevice> there;
  std::vector<std::vector<float>> expected;
  for (const std::uint32_t run : {1, 2, 3}) {
    const auto operands = all_operands(c, run);
    there.emplace_back(operands);
    expected.push_back(reference_of(plan, operands)[at(world.rank())]);
  }
  world.barrier();  // nobody allots or frees memory while another's kernel waits: both wait for the GPU
  for (std::size_t run = 0; run < there.size(); ++run) {
    op.run(there[run].operands[at(world.rank())]);
    op.finish();
    worst = std::max(worst, error_of(static_cast<const std::byte*>(op.output()), expected[run]));
    world.barrier();  // an output that others write is opened by the next run
  }
  for (const std::size_t run : {0, 1, 2, 0, 1}) op.run(there[run].operands[at(world.rank())]);
  op.finish();
  worst = std::max(worst, error_of(static_cast<const std::byte*>(op.output()), expected[1]));
  world.barrier();
  return worst;
}

std::vector<CudaCase> rank_cases(int ranks) {
  std::vector<CudaCase> out;
  const auto add = [&](std::int64_t k, SpaceKind space, Route route, bool gathers = false) {
    CudaCase c{fmt::format("{} {} k {}", to_string(space), to_string(route), k),
               520,
               264,
               k,
               {128, 256},
               ranks,
               route,
               WeightLayout::nk,
               space};
    c.gathers = gathers;
    out.push_back(c);
  };
  for (const std::int64_t k : {72, 0}) {
    add(k, SpaceKind::reduce_scatter, Route::ring), add(k, SpaceKind::reduce_scatter, Route::direct);
    for (const Route route : {Route::ring, Route::two_shot, Route::ring_shot}) add(k, SpaceKind::all_reduce, route);
    add(k, SpaceKind::all_gather, Route::direct), add(k, SpaceKind::all_to_all, Route::direct);
  }
  add(72, SpaceKind::all_gather, Route::direct, true), add(72, SpaceKind::all_gather, Route::ring, true);
  add(16, SpaceKind::broadcast, Route::chain);
  out.push_back(gemv_case(4, 512, 96, ranks));
  out.push_back(gemv_case(16, 2048, 0, ranks));
  return out;
}

TEST_F(Cuda, ThreadsWithALaunchEachAgreeWithTheReference) {
  for (int ranks = 2; ranks <= testing_cuda::times(4, 3); ++ranks)
    for (const CudaCase& c : rank_cases(ranks))
      World::local(ranks, [&](World& world) {
        EXPECT_LE(largest_error(world, c), tolerance(c)) << c.name << ", " << ranks << " ranks";
      });
}

TEST_F(Cuda, BagsOfThreadsWithALaunchEachAgreeToo) {
  for (const BagCase& c : testing_cuda::bag_cases()) {
    if (c.ranks == 1) continue;
    const Plan plan = bag_plan_of(c);
    std::vector<BagInputs> inputs;
    for (int r = 0; r < c.ranks; ++r) inputs.emplace_back(c, r, 5);
    const auto expected = testing_cuda::bag_reference(plan, inputs);
    const BagsOnDevice there(inputs);
    World::local(c.ranks, [&](World& world) {
      CudaOp op = world.compile_cuda(plan, everybody(world), {});
      for (int run = 0; run < 4; ++run) op.run(there.operands[at(world.rank())]);
      op.finish();
      const auto& wanted = expected[at(world.rank())];
      EXPECT_EQ(from_device<float>(op.output(), wanted.size()), wanted) << c.ranks << " ranks";
      world.barrier();
    });
  }
}

// As a program writes it: producers and spaces, not plans.
TEST_F(Cuda, ProducersAndSpacesAreCompiledAsGpusMakeThem) {
  World::local(2, [&](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    const Producer product = gemm({.m = 1024, .n = 264, .k = 72, .layout = WeightLayout::nk});
    for (const Space& space : {all_reduce(mesh, "tp"), reduce_scatter(mesh, "tp"), all_to_all(mesh, "tp"), keep()}) {
      CudaOp op = world.compile_cuda(product, space, {});
      const CudaCase c{"",
                       1024,
                       264,
                       72,
                       {128, 256},
                       op.plan().num_ranks,
                       op.plan().route.value_or(Route::local),
                       WeightLayout::nk,
                       space.kind};
      auto operands = all_operands(c, 1);
      if (space.kind == SpaceKind::keep) operands = {operands_of(c, 0, 1)};
      const auto expected = reference_of(op.plan(), operands);
      const OnDevice there(operands);
      const int position = space.kind == SpaceKind::keep ? 0 : world.rank();
      world.barrier();
      op.run(there.operands[at(position)]);
      op.finish();
      EXPECT_LE(error_of(static_cast<const std::byte*>(op.output()), expected[at(position)]), tolerance(c))
          << to_string(space.kind);
      world.barrier();
    }
  });
}

// What only its own rank writes may go anywhere; what others write stays where they know it.
TEST_F(Cuda, AnOutputOfOnesOwnGoesWhereTheCallerSays) {
  const CudaCase c = rank_cases(2)[0];
  const Plan plan = plan_of(c);
  const auto operands = all_operands(c, 1);
  const auto expected = reference_of(plan, operands);
  World::local(2, [&](World& world) {
    CudaOp op = world.compile_cuda(plan, everybody(world), {});
    ASSERT_TRUE(op.own_output());
    const OnDevice there(operands);
    const auto& wanted = expected[at(world.rank())];
    DeviceMemory y(std::ssize(wanted) * 2);
    CudaOperands mine = there.operands[at(world.rank())];
    mine.y = y.data();
    world.barrier();
    op.run(mine);
    op.finish();
    EXPECT_LE(error_of(y.data(), wanted), tolerance(c));
    world.barrier();
    CudaOp sum = world.compile_cuda(plan_of(rank_cases(2)[3]), everybody(world), {});
    EXPECT_FALSE(sum.own_output());
    EXPECT_THROW(sum.run(mine), Error);
  });
}

TEST_F(Cuda, OpsThatAreDoneWithGiveTheirMemoryBack) {
  const CudaCase c{"", 2048, 2048, 64, {128, 256}, 2, Route::ring, WeightLayout::nk};  // 8 MB and more per rank
  const Plan plan = plan_of(c);
  World::local(2, [&](World& world) {
    for (int i = 0; i < 4; ++i) world.compile_cuda(plan, everybody(world), {});
    world.barrier();
    const std::int64_t before = free_device_bytes();
    world.barrier();
    for (int i = 0; i < 50; ++i) world.compile_cuda(plan, everybody(world), {});
    world.barrier();
    EXPECT_LE(before - free_device_bytes(), 40 << 20);
    world.barrier();
  });
}

TEST_F(Cuda, ARankThatDoesNotComeAlongIsNamedAndOthersGoOn) {
  CudaCase c = rank_cases(2)[0];
  const Plan plan = plan_of(c);
  World::local(2, [&](World& world) {
    const OnDevice there(all_operands(c, 1));
    CudaOp op = world.compile_cuda(plan, everybody(world), {.deadline = std::chrono::milliseconds(200)});
    world.barrier();
    if (world.rank() == 0) {
      op.run(there.operands[0]);
      testing_cuda::expect_deadline([&] { op.finish(); }, "rank 0 waited 0[.]2 s for .* from rank 1 .*");
    }
    world.barrier();
    EXPECT_LE(largest_error(world, c), tolerance(c));
  });
}

TEST_F(Cuda, RanksThatDisagreeOrMayNotShareAreToldSo) {
  World::local(2, [&](World& world) {
    CudaCase c = rank_cases(2)[0];
    c.k += 8 * world.rank();
    try {
      world.compile_cuda(plan_of(c), everybody(world), {});
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("compile different plans"), std::string::npos) << error.what();
    }
    c = rank_cases(2)[0];
    c.n = 260;  // which no GPU reads
    try {
      world.compile_cuda(plan_of(c), everybody(world), {});
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("rank 0 cannot compile for a GPU"), std::string::npos) << error.what();
    }
    world.barrier();
  });
}

LaunchResult run_children(int ranks, const std::string& what) {
  LaunchOptions options;
  options.num_ranks = ranks;
  options.argv = {"/proc/self/exe", "--child", what};
  // 32 connections are too many where processes share them.
  options.env = {{"CUDA_DEVICE_MAX_CONNECTIONS", "8"}};
  return launch(options);
}

TEST_F(Cuda, ProcessesThatShareAGpuAgreeWithTheReference) {
  if (!this_gpu().mps) GTEST_SKIP() << "MPS is off; start it with nvidia-cuda-mps-control -d";
  for (int ranks = 2; ranks <= testing_cuda::times(4, 2); ranks += 2)
    EXPECT_EQ(run_children(ranks, "agree").exit_code(), 0) << ranks << " ranks";
}

TEST_F(Cuda, ProcessesWithoutMpsAreRefusedInASentence) {
  if (this_gpu().mps) GTEST_SKIP() << "MPS is on";
  const LaunchResult result = run_children(2, "agree");
  EXPECT_NE(result.exit_code(), 0);
  EXPECT_NE(result.sentence().find("start MPS"), std::string::npos) << result.sentence();
}

TEST_F(Cuda, AKilledProcessIsNamedLongBeforeTheDeadline) {
  if (!this_gpu().mps) GTEST_SKIP() << "MPS is off; start it with nvidia-cuda-mps-control -d";
  EXPECT_EQ(run_children(2, "kill").ranks[0].exit_code, 0);
}

int agree() {
  World world = World::init();
  int wrong = 0;
  for (const CudaCase& c : rank_cases(world.size())) {
    const double error = largest_error(world, c);
    if (error > tolerance(c)) ++wrong, fmt::print(stderr, "{}: error {}\n", c.name, error);
  }
  return wrong == 0 ? 0 : 1;
}

// Rank 1 dies while rank 0's kernel waits for it.
int kill_one() {
  World world = World::init();
  const CudaCase c = rank_cases(2)[0];
  const OnDevice there(all_operands(c, 1));
  CudaOp op = world.compile_cuda(plan_of(c), everybody(world), {.deadline = std::chrono::seconds(60)});
  if (world.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    raise(SIGKILL);
  }
  op.run(there.operands[0]);
  const auto begin = std::chrono::steady_clock::now();
  try {
    op.finish();
  } catch (const Error& error) {
    const auto took = std::chrono::steady_clock::now() - begin;
    return error.code() == Code::peer_failed && error.rank() == 1 && took < std::chrono::seconds(5) ? 0 : 3;
  }
  return 4;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::testing::test_main(argc, argv, [](const weft::testing::ChildWords& words) {
    try {
      return words[0] == "kill" ? weft::kill_one() : weft::agree();
    } catch (const weft::Error& error) {
      weft::leave_words(error.what());
      throw;
    }
  });
}
