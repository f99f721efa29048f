// What a CudaOp promises beside right sums: runs in any queue, recorded or not; counts on the host or the device; bad
// operands that are refused and leave it usable; a GPU per rank.
#include "weft/world/cuda/cuda_op.h"

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/small/bag_executor.h"
#include "weft/exec/cuda/small/bags_test.h"
#include "weft/exec/cuda/small/gemv_executor.h"
#include "weft/world/world.h"

#include "tests/cuda_bags.h"
#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::BagCase;
using testing_cuda::BagInputs;
using testing_cuda::BagsOnDevice;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::error_of;
using testing_cuda::everybody;
using testing_cuda::OnDevice;
using testing_cuda::plan_of;
using testing_cuda::tolerance;

CudaCase ring(std::int64_t k = 72) { return {"ring", 520, 264, k, {128, 256}, 2, Route::ring, WeightLayout::nk}; }

// Words of few rows carry the number of their run, which two runs at once would both read.
TEST_F(Cuda, RunsOfAnOpInSeveralQueuesFollowOneAnother) {
  if (num_devices() < 2) GTEST_SKIP() << "there is one GPU here; threads that share it have one run at a time anyway";
  const CudaCase c = testing_cuda::gemv_case(4, 4096, 96, 2);
  const Plan plan = plan_of(c);
  const auto first = all_operands(c, 1), second = all_operands(c, 2);
  const auto expected = testing_cuda::reference_of(plan, second);
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank());
    const OnDevice there(first), then(second);
    CudaOp op = world.compile_cuda(plan, everybody(world), {});
    DeviceQueue one(QueueKind::apart), other(QueueKind::apart);
    world.barrier();
    for (int i = 0; i < 5; ++i) {
      op.run(there.operands[at(world.rank())], one.handle());
      op.run(then.operands[at(world.rank())], other.handle());
    }
    op.finish();
    EXPECT_LE(error_of(static_cast<const std::byte*>(op.output()), expected[at(world.rank())]), tolerance(c));
    EXPECT_FALSE(op.was_recorded());
    world.barrier();
  });
}

// Counts of the host are frozen with a recording; those on the device are read by every run.
TEST_F(Cuda, CountsAreRecordedOrReadFromTheDevice) {
  const testing_cuda::CountedCase counted = testing_cuda::counted_cases()[2];  // a ring of 300 of 780 rows
  const CudaCase& c = counted.plan;
  const Plan plan = plan_of(c);
  const auto some = counted.counts();
  const auto operands = all_operands(c, 1);
  const OnDevice there(operands);
  const auto right = [&](const CudaExecutor& executor, const std::vector<std::vector<float>>& expected) {
    double worst = 0;
    for (int r = 0; r < c.ranks; ++r) worst = std::max(worst, error_of(executor, r, expected[at(r)]));
    return worst <= tolerance(c);
  };
  const auto few = testing_cuda::reference_of(plan, operands, some), all = testing_cuda::reference_of(plan, operands);
  CudaExecutor executor(plan, {});
  executor.limit(some);
  {
    DeviceGraph graph([&] { executor.start(there.operands); });
    executor.limit({});
    graph.launch();
    executor.finish();
    EXPECT_TRUE(right(executor, few));
  }
  for (int r = 0; r < c.ranks; ++r) {
    const std::vector<std::int32_t> mine = device_counts(some[at(r)], c.ranks);
    copy_later(executor.counts(r), mine.data(), std::ssize(mine) * 4, device_queue());
  }
  executor.start(there.operands);
  executor.finish();
  EXPECT_TRUE(right(executor, few));
  executor.limit({});
  executor.start(there.operands);
  executor.finish();
  EXPECT_TRUE(right(executor, all));
}

// Every route and order is tried, and all ranks keep the same.
TEST_F(Cuda, TheFastestOfAllWaysIsKeptAndSaysWhatTheOthersTook) {
  CudaCase c{"tried", 264, 264, 72, {128, 256}, 2, Route::two_shot, WeightLayout::nk, SpaceKind::all_reduce};
  const auto operands = all_operands(c, 1);
  const auto expected = testing_cuda::reference_of(plan_of(c), operands);
  c.gathers = true, c.space = SpaceKind::all_gather, c.route = Route::direct;
  const auto gathered = testing_cuda::reference_of(plan_of(c), operands);
  const OnDevice there(operands);
  std::vector<std::string> said(2);
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank() % num_devices());
    const Producer product = gemm({.m = c.m, .n = c.n, .k = c.k, .layout = c.layout});
    const Mesh mesh = world.mesh({{"tp", 2}});
    const auto run = [&](CudaOp op, const std::vector<std::vector<float>>& right) {
      op.finish();  // the trials' queue has gone
      op.run(there.operands[at(world.rank())]);
      op.finish();
      EXPECT_LE(error_of(static_cast<const std::byte*>(op.output()), right[at(world.rank())]), tolerance(c));
      said[at(world.rank())] = op.plan().why;
      world.barrier();
      EXPECT_EQ(said[0], said[1]);
      return op.plan().why;
    };
    const std::string sums = run(world.compile_cuda(product, all_reduce(mesh, "tp"), {.trials = 1}), expected);
    for (const char* route : {"tried: ring ", "two_shot ", "one_shot ", "ring_shot "})
      EXPECT_NE(sums.find(route), std::string::npos) << sums;
    const std::string rows = run(world.compile_cuda(all_gather(mesh, "tp"), product, {.trials = 1}), gathered);
    EXPECT_NE(rows.find("direct, gathered_rows 1, part_cols 64 "), std::string::npos) << rows;
    const std::string known =
        run(world.compile_cuda(product, all_reduce(mesh, "tp", {.route = Route::ring}), {.trials = 1}), expected);
    EXPECT_EQ(known.find("tried"), std::string::npos) << known;  // there is no choice
  });
}

// As PyTorch packs rows that lie apart: before a run, and behind it.
TEST_F(Cuda, PartsOfRowsAreCopiedBeforeAndBehindARun) {
  CudaCase c{"keep", 96, 24, 8, {128, 256}, 1, Route::local};
  const auto operands = all_operands(c, 1);
  const auto expected = testing_cuda::reference_of(plan_of(c), operands)[0];
  const OnDevice there(operands);
  World::local(1, [&](World& world) {
    CudaOp op = world.compile_cuda(plan_of(c), everybody(world), {});
    DeviceMemory x(96 * 8 * 2), y(96 * 24 * 2);
    const DeviceQueue queue(QueueKind::apart);
    for (const int part : {1, 0})
      op.copy(x.data() + part * 48 * 16, static_cast<const std::byte*>(there.operands[0].x) + part * 48 * 16, 48 * 16,
              queue.handle());
    CudaOperands moved = there.operands[0];
    moved.x = x.data();
    op.run(moved, queue.handle());
    op.copy_output(y.data() + 64 * 48, 0, 32 * 48, queue.handle());
    op.copy_output(y.data(), 32 * 48, 64 * 48, queue.handle());
    op.copy_output(nullptr, 96 * 48, 0, queue.handle());
    op.finish();
    std::vector<float> turned(expected.begin() + 32 * 24, expected.end());
    turned.insert(turned.end(), expected.begin(), expected.begin() + 32 * 24);
    EXPECT_LE(error_of(y.data(), turned), tolerance(c));
    EXPECT_EQ(refusal([&] { op.copy_output(y.data(), 90 * 48, 7 * 48); }),
              "336 bytes from 4320 on are not in the output of plan \"" + op.plan().name + "\", which has 4608");
  });
}

// Two tables of each of two ranks, on the device, and what is to come of them.
struct TwoRanksBags {
  BagCase c{2, 8, 64, 2, 4};
  Plan plan = testing_cuda::bag_plan_of(c);
  std::vector<BagInputs> inputs{{c, 0, 5}, {c, 1, 5}};
  std::vector<std::vector<float>> expected = testing_cuda::bag_reference(plan, inputs);
  BagsOnDevice there{inputs};

  void expect_right(const CudaBags& bags) const {
    for (int r = 0; r < c.ranks; ++r)
      EXPECT_EQ(from_device<float>(bags.output(r), expected[at(r)].size()), expected[at(r)]) << "rank " << r;
  }
};

// An index or offset that is not there is told of once; the run went on without it, and so do all ranks.
TEST_F(Cuda, BagsRefuseWildIndicesAndOffsetsAndGoOn) {
  const TwoRanksBags two;
  auto wild = two.inputs, late = two.inputs, falling = two.inputs;
  wild[1].indices[1][3] = two.c.rows + 7;
  late[1].offsets[0].back() = std::ssize(late[1].indices[0]) + 1000;
  falling[1].offsets[0][20] = 0;
  falling[1].offsets[0][19] = 5;
  const struct {
    const std::vector<BagInputs>& inputs;
    std::string sentence;
  } cases[] = {
      {wild, "table 1 of rank 1 has no row 57; give indices below its rows"},
      {late, "offset [0-9]+ of table 0 of rank 1 is beyond its indices or the next offset; let offsets grow .*"},
      {falling, "offset [0-9]+ of table 0 of rank 1 is beyond its indices or the next offset; let offsets grow .*"}};
  CudaBags bags(two.plan, {});
  for (const auto& [bad, sentence] : cases) {
    const BagsOnDevice broken(bad);
    bags.start(broken.operands);
    const std::string told = refusal([&] { bags.finish(); });
    EXPECT_TRUE(std::regex_match(told, std::regex(sentence))) << told;
    bags.start(two.there.operands);
    bags.finish();
    two.expect_right(bags);
  }
}

TEST_F(Cuda, BagsAreRecordedWithTheirTables) {
  const TwoRanksBags two;
  CudaBags bags(two.plan, {});
  DeviceGraph graph([&] {
    const std::vector<BagOperands> gone_then = two.there.operands;
    bags.start(gone_then);
  });
  for (int i = 0; i < 3; ++i) graph.launch();
  bags.finish();
  two.expect_right(bags);
}

TEST_F(Cuda, OperandsThatAGpuCannotReadAreRefused) {
  const auto shifted = [](const void* p, int bytes) { return static_cast<const std::byte*>(p) + bytes; };
  const auto told = [](const char* name, int bytes) {
    return fmt::format(
        "{} begins at no multiple of {} bytes, of which a GPU reads so many at a time; copy it to a "
        "tensor of its own",
        name, bytes);
  };
  const CudaCase few = testing_cuda::gemv_case(1, 96, 32, 1);
  CudaGemv gemv(plan_of(few), {});
  const OnDevice rows(all_operands(few, 1));
  CudaOperands odd = rows.operands[0];
  odd.w = shifted(odd.w, 8);
  EXPECT_EQ(refusal([&] { gemv.start({&odd, 1}); }), told("w", 16));
  gemv.start(rows.operands);
  gemv.finish();

  CudaCase kept{"keep", 40, 24, 8, {128, 256}, 1, Route::local};
  kept.bias = kept.residual = true, kept.residual_type = Dtype::bf16;
  CudaExecutor gemm(plan_of(kept), {});
  const OnDevice finished(all_operands(kept, 1));
  for (const int bytes : {2, 4}) {
    CudaOperands moved = finished.operands[0];
    (bytes == 4 ? moved.bias : moved.residual) = shifted(bytes == 4 ? moved.bias : moved.residual, bytes);
    EXPECT_EQ(refusal([&] { gemm.start({&moved, 1}); }), told(bytes == 4 ? "bias" : "residual", 2 * bytes));
  }
  CudaOperands whole = finished.operands[0];
  whole.bias_type = Dtype::i32;
  EXPECT_EQ(refusal([&] { gemm.start({&whole, 1}); }), "bias is i32; give f32 or bf16");
  gemm.start(finished.operands);
  gemm.finish();

  const BagCase c{2, 8, 64, 2, 4};
  CudaBags bags(testing_cuda::bag_plan_of(c), {});
  BagsOnDevice there({BagInputs(c, 0, 1), BagInputs(c, 1, 1)});
  there.tables[1][0].rows += 1;
  EXPECT_EQ(refusal([&] { bags.start(there.operands); }), told("a table", 16));
  there.tables[1][0].rows -= 1;
  there.operands[0] = {std::span(there.tables[0]).subspan(1)};
  EXPECT_EQ(refusal([&] { bags.start(there.operands); }),
            "plan \"" + bags.plan().name + "\" pools 2 tables of rank 0, but 1 are given");
}

// Peer access between devices, which a host with one GPU never sees.
TEST_F(Cuda, RanksWithAGpuEachAgreeWithTheReference) {
  const int devices = num_devices();
  if (devices < 2) GTEST_SKIP() << "there is one GPU here; this takes two";
  for (const int ranks : {2, std::min(devices, 4)})
    for (const Route route : {Route::ring, Route::direct}) {
      CudaCase c = ring();
      c.ranks = ranks, c.route = route;
      const Plan plan = plan_of(c);
      const auto operands = all_operands(c, 1);
      const auto expected = testing_cuda::reference_of(plan, operands);
      World::local(ranks, [&](World& world) {
        const UseDevice scope(world.rank());
        const OnDevice there(operands);
        CudaOp op = world.compile_cuda(plan, everybody(world), {});
        for (int run = 0; run < 3; ++run) op.run(there.operands[at(world.rank())]);
        op.finish();
        EXPECT_LE(error_of(static_cast<const std::byte*>(op.output()), expected[at(world.rank())]), tolerance(c))
            << ranks << " ranks, " << to_string(route);
        world.barrier();
      });
    }
}

}  // namespace
}  // namespace weft
