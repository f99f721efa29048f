// What the world and its ops refuse, and in which words; and that ops in flight and buffers of several copies keep
// apart.
#include "weft/world/world.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/refusal_test.h"
#include "weft/base/thread_pool.h"
#include "weft/collective/build.h"
#include "weft/exec/ref/ref.h"
#include "weft/kernel/quant/quant_rows.h"

namespace weft {
namespace {

// What one rank of a world of that many says when it refuses `call`.
std::string refused(int num_ranks, const std::function<void(World&)>& call, const WorldOptions& options = {}) {
  std::string said;
  std::mutex mutex;
  World::local(
      num_ranks,
      [&](World& world) {
        const std::string mine = refusal([&] { call(world); });
        const std::lock_guard lock(mutex);
        said = mine;
      },
      options);
  return said;
}

struct Setting {  // of the environment, for one test
  Setting(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  const char* name;
};

TEST(World, MeshesHaveAllItsRanks) {
  EXPECT_EQ(refused(2,
                    [](World& world) {
                      world.mesh({{"tp", 3}});
                    }),
            "mesh tp=3 has 3 ranks, but the world has 2; make the axes multiply to 2");
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"dp", 2}, {"tp", 2}});
    EXPECT_EQ(mesh.size(), 4);
    EXPECT_EQ(world.size(), 4);
    EXPECT_EQ(world.transport(), "threads");
  });
}

TEST(World, PlansHaveAsManyRanksAsTheirGroup) {
  const Mesh three({{"tp", 3}});
  const Plan plan = build(copy({.rows = 6, .cols = 2}), all_reduce(three, "tp"));
  const std::string said = refused(2, [&](World& world) { world.compile(plan); });
  EXPECT_NE(said.find("is for 3 ranks, but the group has 2"), std::string::npos) << said;
  const std::string other = refused(2, [&](World& world) { world.compile(plan, three, "tp"); });
  EXPECT_NE(other.find("has 3 ranks, but the world has 2"), std::string::npos) << other;
}

TEST(World, RanksThatCompileDifferentPlansAreTold) {
  const std::string said = refused(2, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    world.compile(copy({.rows = 4 + 2 * world.rank(), .cols = 2}), all_reduce(mesh, "tp"));
  });
  EXPECT_NE(said.find("compile different plans; give every rank of a group the same arguments"), std::string::npos)
      << said;
}

TEST(World, APlanThatCannotRunIsRefusedBeforeItDoes) {
  Plan plan = build(copy({.rows = 4, .cols = 2}), all_reduce(Mesh({{"tp", 2}}), "tp"));
  for (Rule& rule : plan.rules) rule.signals.clear();
  EXPECT_NE(refused(2, [&](World& world) { world.compile(plan); }), "did not throw");
}

// As a GPU takes them: x, w and y in bf16, w as (n, k). Small whole numbers, whose sums are exact in any order, and in
// bf16 too.
TEST(World, GemmsInBf16WithWeightsByOutputAgreeWithTheReference) {
  constexpr int kRanks = 3;
  for (const bool gathers : {false, true}) {
    const Producer p = gemm({.m = 70,
                             .n = 40,
                             .k = 24,
                             .weight = Dtype::bf16,
                             .tile = {32, 16},
                             .x = Dtype::bf16,
                             .y = Dtype::bf16,
                             .layout = WeightLayout::nk});
    const Mesh mesh({{"tp", kRanks}});
    const Plan plan = gathers ? build(all_gather(mesh, "tp", {.route = Route::ring}), p)
                              : build(p, reduce_scatter(mesh, "tp", {.route = Route::ring, .wire = Dtype::bf16}));
    std::vector<std::vector<bf16>> x(kRanks), w(kRanks);
    std::vector<Bindings> bindings(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      for (int i = 0; i < 70 * 24; ++i) x[at(r)].push_back(to_bf16(static_cast<float>((i * 7 + r) % 3 - 1)));
      for (int i = 0; i < 40 * 24; ++i) w[at(r)].push_back(to_bf16(static_cast<float>((i * 5 + r) % 3 - 1)));
      bindings[at(r)].producers.emplace_back();
      bindings[at(r)].producers[0].narrow_x = x[at(r)].data(), bindings[at(r)].producers[0].w = w[at(r)].data();
      bindings[at(r)].buffers.assign(plan.buffers.size(), x[at(r)].data());
    }
    RefExecutor ref(plan);
    ref.run(bindings);
    World::local(kRanks, [&](World& world) {
      Op op = world.compile(plan);
      Inputs in = bindings[at(world.rank())].producers[0];
      for (int run = 0; run < 2; ++run) op.run(in);
      const BufferView y = op.view("y");
      ASSERT_EQ(y.dtype, Dtype::bf16);
      const auto& expected = ref.output(world.rank());
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(to_float(static_cast<const bf16*>(y.data)[i]), expected[i]) << "element " << i;
      in.narrow_x = nullptr;
      EXPECT_NE(refusal([&] { op.run(in); }).find("narrow_x"), std::string::npos);
    });
  }
}

// Weights in blocks of which ranks have columns that begin anywhere: what a quantised model's output projection is.
TEST(World, GemvsWithWeightsInBlocksAgreeWithTheReference) {
  const std::int64_t n = 300, k = 160, ld = 512;
  for (const Dtype dtype : {Dtype::q8_0, Dtype::q4_k})
    for (const std::int64_t m : {1, 40}) {
      std::vector<std::vector<float>> x(3);
      std::vector<std::vector<std::byte>> w(3);
      std::vector<Inputs> in(3);
      for (int rank = 0; rank < 3; ++rank) {
        for (std::int64_t i = 0; i < m * k; ++i) x[num(rank)].push_back(static_cast<float>((i * 7 + rank) % 23) - 11);
        std::vector<float> row(num(ld));
        w[num(rank)].resize(num(n * row_bytes(dtype, ld)));
        for (std::int64_t r = 0; r < n; ++r) {
          for (std::int64_t c = 0; c < ld; ++c) row[at(c)] = static_cast<float>((r * 5 + c * 3 + rank) % 17) / 8 - 1;
          quantise(dtype, ld, row.data(), w[num(rank)].data() + r * row_bytes(dtype, ld));
        }
        in[num(rank)].x = x[num(rank)].data(), in[num(rank)].w = w[num(rank)].data();
        in[num(rank)].w_first = dtype == Dtype::q8_0 ? 0 : 32 * rank, in[num(rank)].w_ld = ld;
      }
      std::vector<double> want(num(m * n)), one(want.size());
      for (int rank = 0; rank < 3; ++rank) {
        quant_matmul_naive(m, {w[num(rank)].data(), dtype, n, k, in[num(rank)].w_first, ld}, x[num(rank)].data(), k,
                           one.data(), n);
        for (std::size_t i = 0; i < want.size(); ++i) want[i] += one[i];
      }
      const Plan plan = build(gemv({.m = m, .n = n, .k = k, .weight = dtype}),
                              all_reduce(Mesh({{"tp", 3}}), "tp", {.route = Route::ring}));
      std::vector<Bindings> bindings(3);
      for (std::size_t rank = 0; rank < 3; ++rank)
        bindings[rank].producers = {in[rank]}, bindings[rank].buffers.resize(plan.buffers.size());
      RefExecutor ref(plan);
      ref.run(bindings);
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(ref.output(1)[i], want[i], 1e-3 * (1 + std::abs(want[i]))) << "the reference executor, at " << i;
      World::local(3, [&](World& world) {
        Op op = world.compile(plan);
        Inputs mine = in[num(world.rank())];
        mine.w_ld = 0;
        EXPECT_NE(refusal([&] { op.run(mine); }).find("give rows of whole blocks"), std::string::npos);
        op.run(in[num(world.rank())]);
        const auto y = op.output().values();
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(y[i], want[i], 1e-3 * (1 + std::abs(want[i]))) << to_string(dtype) << " " << m << " at " << i;
      });
    }
}

TEST(World, BadSettingsNameTheirValue) {
  const auto world_of_one = [](const WorldOptions& options = {}) {
    return refusal([&] {
      World::local(
          1, [](World&) {}, options);
    });
  };
  EXPECT_EQ(world_of_one({.ranks_per_host = 0}), "ranks_per_host is 0; use 1 or more");
  {
    const Setting threads("WEFT_THREADS", "two");
    EXPECT_EQ(world_of_one(), "WEFT_THREADS is \"two\"; give a number of threads, 1 or more");
  }
  {
    const Setting link("WEFT_LINK", "fast");
    EXPECT_NE(world_of_one().find("fast"), std::string::npos);
  }
  const Setting patience("WEFT_WAIT_S", "-1");
  EXPECT_EQ(world_of_one(), "WEFT_WAIT_S=\"-1\" is not a positive number of seconds; use for example WEFT_WAIT_S=10");
}

TEST(World, ThreadsComeFromTheOptionsOrTheEnvironment) {
  const auto threads = [](const WorldOptions& options) {
    int seen = 0;
    World::local(
        1, [&](World& world) { seen = world.threads().size(); }, options);
    return seen;
  };
  EXPECT_EQ(threads({}), 1);
  const Setting three("WEFT_THREADS", "3");
  EXPECT_EQ(threads({}), 3);
  EXPECT_EQ(threads({.threads = 2}), 2);
}

TEST(World, APacedLinkIsTheNetworkThatRoutesArePricedOn) {
  WorldOptions options;
  options.link = Link{.bytes_per_s = 5e6, .latency_s = 3e-6, .fabric = Fabric::nic};
  options.ranks_per_host = 2;
  World::local(
      4,
      [](World& world) {
        const Cluster cluster = world.cluster(4);
        EXPECT_EQ(cluster.network.bytes_per_s, 5e6);
        EXPECT_EQ(cluster.fabric, Fabric::nic);
        EXPECT_EQ(cluster.num_hosts, 2);
      },
      options);
}

// Of every op and every run its own values, however many are under way and in whatever order they are asked for.
TEST(World, OpsInFlightKeepApart) {
  for (const Fabric fabric : {Fabric::pairs, Fabric::nic}) {
    WorldOptions options;
    options.link = Link{.bytes_per_s = 1e8, .latency_s = 20e-6, .fabric = fabric};
    World::local(
        3,
        [](World& world) {
          const Mesh mesh = world.mesh({{"tp", 3}});
          std::vector<Op> ops;
          for (int i = 0; i < 5; ++i)
            ops.push_back(i % 2 == 0 ? world.compile(copy({.rows = 6, .cols = 8}), all_reduce(mesh, "tp"))
                                     : world.compile(copy({.rows = 6, .cols = 8}), all_gather(mesh, "tp")));
          for (int run = 0; run < 10; ++run) {
            for (int i = 0; i < 5; ++i) {
              const std::vector<float> x(48, static_cast<float>(100 * run + 10 * i + world.rank()));
              ops[at(i)].run(x.data());
            }
            for (int i = 4; i >= 0; --i) {
              const float each = static_cast<float>(100 * run + 10 * i);
              const Matrix y = ops[at(i)].output();
              EXPECT_EQ(y.row(0)[7], i % 2 == 0 ? 3 * each + 3 : each);
              EXPECT_EQ(y.row(y.rows - 1)[0], i % 2 == 0 ? 3 * each + 3 : each + 2);
              EXPECT_TRUE(ops[at(i)].ready());
            }
          }
        },
        options);
  }
}

// Runs that nobody waits for follow each other: run e + 1 begins while peers are still busy with run e.
TEST(World, ManyRunsBackToBackEndInTheLast) {
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 4}});
    for (const Route route : {Route::ring, Route::one_shot, Route::two_shot}) {
      Op op = world.compile(copy({.rows = 8, .cols = 16}), all_reduce(mesh, "tp", {.route = route}));
      std::vector<float> x(128);
      for (int run = 0; run < 200; ++run) {
        std::fill(x.begin(), x.end(), static_cast<float>(run + world.rank()));
        op.run(x.data());
      }
      for (const float value : op.output().values()) ASSERT_EQ(value, 4 * 199 + 6);
    }
  });
}

TEST(World, AnOpReportsWhatItSentAndShowsItsBuffers) {
  World::local(2, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    Op op = world.compile(copy({.rows = 4, .cols = 8}), all_gather(mesh, "tp", {.route = Route::direct}));
    EXPECT_EQ(op.sent().bytes, 0);
    const std::vector<float> x(32, static_cast<float>(world.rank()));
    op.run(x.data());
    const BufferView y = op.view("y");
    EXPECT_EQ(y.dims, 2);
    EXPECT_EQ(y.shape[0], 8);
    EXPECT_EQ(y.bytes, 8 * 8 * sizeof(float));
    EXPECT_EQ(op.sent().bytes, 4 * 8 * 4);
    EXPECT_GT(op.sent().signals, 0);
    EXPECT_EQ(refusal([&] { op.buffer("nothing"); }),
              "plan \"" + op.plan().name + "\" has no readable buffer \"nothing\"");
  });
}

// Into memory that begins anywhere, between guards; and into the op's own again.
TEST(World, OutputsThatOnlyTheirRankWritesMayBeTheCallers) {
  constexpr int kRanks = 3;
  constexpr float kGuard = -7;
  const auto spaces = [](const Mesh& mesh) {
    return std::vector{reduce_scatter(mesh, "tp", {.route = Route::direct}),
                       reduce_scatter(mesh, "tp", {.route = Route::ring}),
                       all_reduce(mesh, "tp", {.route = Route::one_shot})};
  };
  World::local(kRanks, [&](World& world) {
    for (const Space& space : spaces(world.mesh({{"tp", kRanks}}))) {
      Op op = world.compile(gemm({.m = 30, .n = 21, .k = 5, .bias = true}), space);
      ASSERT_TRUE(op.own_output("y")) << op.plan().name;
      std::vector<float> x(30 * 5), w(5 * 21), bias(21, 0.5F);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i + num(world.rank())) % 7);
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 5) - 2;
      Inputs inputs;
      inputs.x = x.data(), inputs.w = w.data(), inputs.bias = bias.data();
      op.run(inputs);
      const Matrix own = op.output();
      const std::vector<float> expected(own.values().begin(), own.values().end());
      for (int run = 0; run < 5; ++run) {
        std::vector<float> given(expected.size() + 2, kGuard);
        const std::array<void*, 1> outputs{given.data() + 1};
        op.run(inputs, outputs);
        const Matrix there = op.output();
        EXPECT_EQ(there.data, given.data() + 1);
        EXPECT_EQ(there.rows, own.rows);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), given.begin() + 1)) << op.plan().name;
        EXPECT_EQ(given.front(), kGuard);
        EXPECT_EQ(given.back(), kGuard);
        op.run(inputs);
        EXPECT_EQ(op.output().data, own.data) << "and into its own again";
      }
    }
  });
}

TEST(World, OutputsThatOthersWriteStayTheOps) {
  World::local(2, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    const std::vector<float> x(32, 1);
    std::vector<float> given(64, 0);
    Inputs inputs;
    inputs.x = x.data();
    const std::array<void*, 2> outputs{given.data(), nullptr};
    Op op = world.compile(copy({.rows = 4, .cols = 8}), all_gather(mesh, "tp", {.route = Route::direct}));
    EXPECT_FALSE(op.own_output("y"));
    EXPECT_FALSE(op.own_output("nothing"));
    EXPECT_EQ(refusal([&] { op.run(inputs, std::span(outputs).first(1)); }),
              "output \"y\" of plan \"" + op.plan().name +
                  "\" is written or read by other ranks; let it be the op's own memory");
    EXPECT_EQ(refusal([&] { op.run(inputs, std::span(outputs).last(1)); }), "did not throw");
    EXPECT_EQ(op.output().data[0], 1);
    Op sum = world.compile(copy({.rows = 4, .cols = 8}), reduce_scatter(mesh, "tp"));
    EXPECT_EQ(refusal([&] { sum.run(inputs, outputs); }),
              "plan \"" + sum.plan().name + "\" has 1 outputs, but the run gives memory for 2");
  });
}

TEST(World, RunsWithTheWrongInputsChangeNothing) {
  World::local(2, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    Op op = world.compile(gemm({.m = 4, .n = 4, .k = 2, .bias = true}), all_reduce(mesh, "tp"));
    const std::vector<float> x(8, 1), w(8, 1), bias(4, 1);
    Inputs inputs;
    inputs.x = x.data(), inputs.w = w.data();
    const std::string name = "plan \"" + op.plan().name + "\" ";
    EXPECT_EQ(refusal([&] { op.run(inputs); }), name + "reads a bias, but the run gives none");
    inputs.bias = bias.data();
    const std::vector<std::int64_t> three(3, 1);
    EXPECT_EQ(refusal([&] { op.run(inputs, {.peers = three}); }), "counts are given for 3 ranks, but the group has 2");
    const std::vector<Inputs> twice(2, inputs);
    EXPECT_EQ(refusal([&] { op.run(twice); }), name + "has 1 producers, but the run gives inputs for 2");
    EXPECT_EQ(refusal([&] { op.run(std::span<const void* const>()); }),
              name + "has a producer; run it with that one's inputs");
    op.run(inputs);
    for (const float value : op.output().values()) EXPECT_EQ(value, 2 * 2 + 1);
  });
}

// Two producers, each with rows of its own: what a loaded plan reads is asked for, whichever producer reads it.
TEST(World, EveryProducersRowsAreAskedFor) {
  World::local(1, [](World& world) {
    Plan plan = build(copy({.rows = 4, .cols = 8}), keep());
    plan.producers.push_back(plan.producers[0]);
    plan.buffers.push_back(plan.buffers[0]);
    plan.buffers[1].name = "z", plan.buffers[1].dtype = Dtype::bf16;
    plan.rules.push_back(plan.rules[0]);
    plan.rules[1].producer = 1, plan.rules[1].targets[0].buffer = 1;
    plan.owed.push_back(plan.owed[0]);
    plan.owed[1].leaf = 1, plan.owed[1].piece.buffer = 1;
    Op op = world.compile(plan);
    const std::vector<float> x(32, 1), z(32, 2);
    std::vector<Inputs> inputs(2);
    inputs[0].x = x.data();
    EXPECT_EQ(refusal([&] { op.run(inputs); }), "plan \"" + plan.name + "\" reads x, but the run gives none");
    inputs[1].x = z.data();
    op.run(inputs);
    EXPECT_EQ(op.output().values()[31], 1);
    EXPECT_NE(refusal([&] { op.buffer("z"); }).find("holds bf16, not f32; read it with view()"), std::string::npos);
  });
}

}  // namespace
}  // namespace weft
