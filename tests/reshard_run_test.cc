// Reshards, run: over threads, processes, paced links and the wire, against the reference executor, every element of
// every destination checked.
#include <cstring>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/ref/ref.h"
#include "weft/plan/program.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/child_main.h"
#include "tests/reshard_cases.h"

namespace weft::testing {
namespace {

constexpr int kRuns = 2;

// Runs a plan on this rank and says what is wrong with what arrived.
std::string run_and_check(World& world, const ReshardCase& c, const Plan& plan) {
  Op op = world.compile(plan);
  for (int run = 0; run < kRuns; ++run) {
    const auto sources = sources_of(c.reshard, world.rank(), run);
    op.run(pointers(sources));
    for (std::size_t t = 0; t < c.reshard.transfers.size(); ++t) {
      const BufferView there = op.view(fmt::format("dst{}", t));
      const auto want = wanted(c.reshard, t, world.rank(), run);
      if (there.bytes != want.size()) return fmt::format("{}: dst{} has {} bytes", c.name, t, there.bytes);
      if (!want.empty() && std::memcmp(there.data, want.data(), want.size()) != 0)
        return fmt::format("{}: dst{} of rank {} differs in run {}", c.name, t, world.rank(), run);
    }
  }
  return {};
}

void expect_runs(const ReshardCase& c, const Plan& plan, const WorldOptions& options = {}) {
  World::local(
      c.reshard.num_ranks, [&](World& world) { EXPECT_EQ(run_and_check(world, c, plan), ""); }, options);
}

// The reference executor's floats and integers as the bytes of the buffer.
std::vector<std::byte> bytes_of(const RefExecutor& ref, const Plan& plan, int rank, int buffer) {
  const Dtype dtype = plan.buffers[buffer].dtype;
  const auto& floats = ref.buffer(rank, buffer);
  const auto& integers = ref.integers(rank, buffer);
  std::vector<std::byte> out((floats.size() + integers.size()) * size_of(dtype));
  for (std::size_t i = 0; i < floats.size(); ++i)
    if (dtype == Dtype::f32)
      std::memcpy(out.data() + 4 * i, &floats[i], 4);
    else
      reinterpret_cast<bf16*>(out.data())[i] = to_bf16(floats[i]);
  for (std::size_t i = 0; i < integers.size(); ++i)
    std::memcpy(out.data() + size_of(dtype) * i, &integers[i], size_of(dtype));
  return out;
}

void expect_reference_agrees(const ReshardCase& c, const Plan& plan) {
  RefExecutor ref(plan, 7);
  for (int run = 0; run < kRuns; ++run) {
    std::vector<std::vector<std::vector<std::byte>>> sources;
    std::vector<Bindings> bindings(num(c.reshard.num_ranks));
    for (int rank = 0; rank < c.reshard.num_ranks; ++rank) {
      sources.push_back(sources_of(c.reshard, rank, run));
      auto next = pointers(sources.back());
      for (std::size_t b = 0, i = 0; b < plan.buffers.size(); ++b)
        bindings[rank].buffers.push_back(plan.buffers[b].role == Role::input ? next[i++] : nullptr);
    }
    ref.run(bindings);
    for (int rank = 0; rank < c.reshard.num_ranks; ++rank)
      for (std::size_t t = 0; t < c.reshard.transfers.size(); ++t)
        EXPECT_EQ(bytes_of(ref, plan, rank, plan.buffer(fmt::format("dst{}", t))), wanted(c.reshard, t, rank, run))
            << c.name << " rank " << rank;
  }
}

// No memory but the shards and the counters.
void expect_no_staging(const Plan& plan) {
  for (const Buffer& buffer : plan.buffers) EXPECT_NE(buffer.role, Role::internal) << buffer.name;
}

void expect_right(const ReshardCase& c, const Plan& plan) {
  const Verdict verdict = verify(plan);
  ASSERT_TRUE(verdict.ok()) << c.name << ": " << verdict.problems.front();
  EXPECT_FALSE(verdict.by_tile) << c.name << ": proved tile by tile";
  expect_no_staging(plan);
  expect_reference_agrees(c, plan);
  expect_runs(c, plan);
}

TEST(ReshardRun, AnyTreeOfHopsBringsEveryElementOnce) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const ReshardCase c = random_reshard(seed);
    const Network network = network_of(c);
    ReshardOptions options;
    options.tile_bytes = seed % 3 == 0 ? 0 : 16;  // many tiles of few elements
    expect_right(c, build(c.reshard, random_schedule(tasks(c.reshard), seed), network, options));
  }
}

// Every strategy with every choice of senders, on the same reshards.
TEST(ReshardRun, AllStrategiesAndChoicesBringEveryElementOnce) {
  const Strategy strategies[] = {Strategy::automatic, Strategy::send_recv, Strategy::local_allgather,
                                 Strategy::global_allgather, Strategy::broadcast};
  const Choice choices[] = {Choice::naive, Choice::balance, Choice::dfs, Choice::greedy, Choice::ours};
  std::uint64_t seed = 1000;
  for (const Strategy strategy : strategies)
    for (const Choice choice : choices)
      for (int i = 0; i < 3; ++i, ++seed) {
        const ReshardCase c = random_reshard(seed);
        ReshardOptions options;
        options.schedule.strategy = strategy;
        options.schedule.choice = choice;
        options.schedule.node_budget = 2000;
        options.tile_bytes = i == 0 ? 0 : 32;
        SCOPED_TRACE(fmt::format("{} {}", to_string(strategy), to_string(choice)));
        expect_right(c, build(c.reshard, network_of(c), options));
      }
}

TEST(ReshardRun, PlansAreSavedAndReadBack) {
  const ReshardCase c = random_reshard(3);
  const Plan plan = build(c.reshard, random_schedule(tasks(c.reshard), 3), network_of(c));
  const Plan again = parse_plan(to_json(plan), "the plan");
  EXPECT_EQ(to_json(again), to_json(plan));
  expect_runs(c, again);
}

TEST(ReshardRun, PacedLinksAndThreadsChangeNoElement) {
  for (std::uint64_t seed = 200; seed < 206; ++seed) {
    const ReshardCase c = random_reshard(seed);
    WorldOptions options;
    options.link = Link{.bytes_per_s = 5e9, .latency_s = 2e-6};
    options.ranks_per_host = 2;
    options.threads = 1 + static_cast<int>(seed % 2);
    ReshardOptions tiles;
    tiles.tile_bytes = 16;
    expect_runs(c, build(c.reshard, random_schedule(tasks(c.reshard), seed), network_of(c), tiles), options);
  }
}

class WiredReshardRun : public ::testing::TestWithParam<WireKind> {};
INSTANTIATE_TEST_SUITE_P(Over, WiredReshardRun, ::testing::Values(WireKind::tls, WireKind::ucx),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(WiredReshardRun, RanksGetEveryElement) {
  if (!available(GetParam())) GTEST_SKIP() << "not in this build (libssl-dev, libucx-dev)";
  for (std::uint64_t seed = 300; seed < 304; ++seed) {
    const ReshardCase c = random_reshard(seed, 4);
    WorldOptions options;
    options.wire = GetParam();
    options.ranks_per_host = 1 + static_cast<int>(seed % 2);
    World::local(
        4,
        [&](World& world) {
          ReshardOptions tiles;
          tiles.tile_bytes = 16;
          EXPECT_EQ(run_and_check(world, c, build(c.reshard, world.network(), tiles)), "");
        },
        options);
  }
}

// A gemm on ranks 0 and 1 whose output is wanted, cut otherwise, on ranks 1 to 4: overlapping, and replicated twice.
Reshard stream_reshard(Dtype to) {
  Reshard out;
  out.num_ranks = 5;
  out.placements = {{"stage 0", Mesh({{"tp", 2}}), {0, 1}}, {"stage 1", Mesh({{"dp", 2}, {"tp", 2}}), {1, 2, 3, 4}}};
  const Shape shape{96, 80};
  Transfer transfer;
  transfer.parts = {{{"y", shape, Dtype::f32, 0, {{{{"tp"}}, {}}, {}}}, {0, 0}}};
  transfer.destination = {"x", shape, to, 1, {{{}, {{"tp"}}}, {}}};
  out.transfers = {transfer};
  return out;
}

// The stream's output, and that of the gemm kept and then resharded: equal to the bit. Returns what is wrong.
std::string compare_stream(World& world, Dtype to, const ReshardOptions& options) {
  const Producer producer =
      gemm({.m = 48, .n = 80, .k = 24, .tile = {16, 32}, .bias = true, .activation = Activation::gelu});
  std::vector<float> x(48 * 24), w(24 * 80), bias(80);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + 13 * world.rank()) % 29) / 8 - 1.5f;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 5 % 31) / 16 - 1;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 3) - 1;
  Inputs inputs;
  inputs.x = x.data();
  inputs.w = w.data();
  inputs.bias = bias.data();
  const Reshard reshard = stream_reshard(to);
  const Network network = one_nic_a_host(std::vector<int>{0, 0, 1, 1, 2}, {.bytes_per_s = 1e9}, {.bytes_per_s = 1e10});
  Op stream = world.compile(producer, reshard, network, options);
  Op kept = world.compile(producer, keep());
  Op moved = world.compile(reshard, network, options);
  for (int run = 0; run < kRuns; ++run) {
    x[0] += 1;
    kept.run(inputs);
    const void* source = world.rank() < 2 ? kept.output().data : nullptr;
    moved.run(std::span(&source, 1));
    stream.run(world.rank() < 2 ? inputs : Inputs{});
    const BufferView a = stream.view("dst0"), b = moved.view("dst0");
    if (a.bytes != b.bytes || (a.bytes > 0 && std::memcmp(a.data, b.data, a.bytes) != 0))
      return fmt::format("rank {} differs in run {}", world.rank(), run);
    if (world.rank() > 0 && a.bytes == 0) return fmt::format("rank {} got nothing", world.rank());
  }
  return {};
}

TEST(ReshardStream, EqualsGemmThenReshardBitForBit) {
  for (const Dtype to : {Dtype::f32, Dtype::bf16})
    for (const Strategy strategy : {Strategy::automatic, Strategy::broadcast, Strategy::send_recv}) {
      ReshardOptions options;
      options.schedule.strategy = strategy;
      World::local(5, [&](World& world) { EXPECT_EQ(compare_stream(world, to, options), ""); });
    }
}

TEST(ReshardStream, MakesEveryTileOnce) {
  ReshardOptions options;
  options.schedule.strategy = Strategy::send_recv;
  const Network network = one_nic_a_host(std::vector<int>{0, 0, 1, 1, 2}, {.bytes_per_s = 1e9}, {.bytes_per_s = 1e10});
  const Plan plan =
      build(gemm({.m = 48, .n = 80, .k = 24, .tile = {16, 32}}), stream_reshard(Dtype::f32), network, options);
  EXPECT_TRUE(verify(plan).ok());
  std::int64_t made = 0;
  const Expander expander(plan);
  for (int rank = 0; rank < 5; ++rank)
    for (const Action& action : expander.program(rank).actions)
      if (action.kind == ActionKind::step) made += action.box.volume();
  EXPECT_EQ(made, 96 * 80);
}

TEST(ReshardStream, RefusesWhatAProducerCannotMake) {
  const Network network = one_nic_a_host(std::vector<int>{0, 0, 1, 1, 2}, {.bytes_per_s = 1e9}, {.bytes_per_s = 1e10});
  EXPECT_THROW(build(gemm({.m = 96, .n = 80, .k = 24}), stream_reshard(Dtype::f32), network), Error);
  EXPECT_THROW(build(gemm({.m = 48, .n = 80, .k = 24, .residual = true}), stream_reshard(Dtype::f32), network), Error);
}

TEST(ReshardRun, RefusesMissingInputs) {
  World::local(5, [](World& world) {
    Op op = world.compile(stream_reshard(Dtype::f32));
    EXPECT_THROW(op.run(std::vector<const void*>{}), Error);
    if (world.rank() == 0) {
      EXPECT_THROW(op.run(std::vector<const void*>{nullptr}), Error);
    }
    world.barrier();
  });
}

constexpr int kProcesses = 5;

int child() {
  World world = World::init();
  for (std::uint64_t seed = 400; seed < 404; ++seed) {
    const ReshardCase c = random_reshard(seed, kProcesses);
    ReshardOptions options;
    options.tile_bytes = 16;
    const std::string wrong = run_and_check(world, c, build(c.reshard, network_of(c), options));
    if (!wrong.empty()) fail(Code::internal, "{}", wrong);
  }
  const std::string wrong = compare_stream(world, Dtype::f32, {});
  if (!wrong.empty()) fail(Code::internal, "{}", wrong);
  return 0;
}

TEST(ReshardRun, ProcessesGetEveryElement) {
  const LaunchResult result = launch({kProcesses, {"/proc/self/exe", "--child"}});
  EXPECT_EQ(result.exit_code(), 0) << result.reason;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords&) { return child(); });
}
