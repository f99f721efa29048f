// What an op promises beyond its result: it allocates nothing on later runs, sends exactly what its plan says, runs for
// any smaller number of rows, keeps several runs and ops in flight, and says what is wrong with its inputs.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/plan/compose.h"
#include "weft/plan/price/traffic.h"
#include "weft/weft.h"

#include "tests/cases.h"

namespace {
thread_local std::int64_t allocations = 0;  // by this thread
}

#ifndef WEFT_SANITIZED
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

namespace weft::testing {
namespace {

TEST(Op, LaterRunsAllocateNothing) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "sanitizers replace operator new";
#endif
  World::local(3, [](World& world) {
    const auto cases = all_cases(3);
    for (std::size_t i = 0; i < cases.size(); i += 7) {
      const Case& c = cases[i];
      Op op = compile(world, c);
      const Data data = make_data(c.producer, world.rank(), 1);
      const Inputs inputs = data.inputs(c.producer);
      op.run(inputs);
      op.output();
      const std::int64_t before = allocations;
      for (int run = 0; run < 5; ++run) {
        op.run(inputs);
        op.output();
      }
      EXPECT_EQ(allocations - before, 0) << c.name;
    }
  });
}

TEST(Op, SendsExactlyWhatItsPlanSays) {
  for (const int num_ranks : {2, 4, 8})
    World::local(num_ranks, [&](World& world) {
      const auto cases = all_cases(num_ranks);
      for (std::size_t i = 0; i < cases.size(); i += 3) {
        const Case& c = cases[i];
        Op op = compile(world, c);
        const int rank = c.space.kind == SpaceKind::keep ? 0 : world.rank();
        const Data data = make_data(c.producer, rank, 1);
        for (int run = 0; run < 2; ++run) {
          op.run(data.inputs(c.producer));
          op.output();
        }
        const Traffic expected = traffic(op.plan()).ranks[rank];
        EXPECT_EQ(op.sent().bytes, 2 * expected.bytes_to_peers) << c.name;
        EXPECT_EQ(op.sent().signals, 2 * expected.signals_to_peers) << c.name;
      }
    });
}

// No byte moves twice: the totals are those of the collective itself.
TEST(Op, MovesTheFewestBytes) {
  for (const int n : {2, 4, 8}) {
    const Mesh mesh({{"tp", n}});
    const std::int64_t rows = 8 * n, bytes = rows * 32 * 4;
    const Producer p = copy({.rows = rows, .cols = 32});
    const auto total = [&](Space space, Route route) {
      space.options.route = route;
      return traffic(build(p, space)).total.bytes_to_peers;
    };
    for (const Route route : {Route::ring, Route::direct}) {
      EXPECT_EQ(total(reduce_scatter(mesh, "tp"), route), (n - 1) * bytes);
      EXPECT_EQ(total(all_gather(mesh, "tp"), route), n * (n - 1) * bytes);
    }
    for (const Route route : {Route::ring, Route::two_shot})
      EXPECT_EQ(total(all_reduce(mesh, "tp"), route), 2 * (n - 1) * bytes);
    EXPECT_EQ(total(all_to_all(mesh, "tp"), Route::automatic), (n - 1) * bytes);
    EXPECT_EQ(total(broadcast(mesh, "tp"), Route::automatic), (n - 1) * bytes);
  }
}

TEST(Op, RunsForAnySmallerNumberOfRows) {
  World::local(3, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 3}});
    for (const Route route : {Route::ring, Route::one_shot, Route::two_shot}) {
      SpaceOptions options;
      options.route = route;
      const Producer p = gemm({.m = 23, .n = 19, .k = 11, .tile = {4, 8}});
      Op op = world.compile(p, all_reduce(mesh, "tp", options));
      std::vector<Data> data;
      for (int r = 0; r < 3; ++r) data.push_back(make_data(p, r, 5));
      const auto full = reference(op.plan(), data)[world.rank()];
      for (const std::int64_t rows : {23, 1, 7, 0, 16, 22, 23}) {
        op.run(data[world.rank()].inputs(p), {.rows = rows});
        const Matrix y = op.output();
        EXPECT_LE(error(y.data, {full.begin(), full.begin() + rows * 19}), 1e-5) << rows;
      }
    }
  });
}

// Few rows read the weights as they lie, more by way of packed panels; which of the two, the run's rows decide.
TEST(Op, AGemvHasAnyNumberOfRows) {
  for (const int threads : {1, 2})
    World::local(
        3,
        [](World& world) {
          const Mesh mesh = world.mesh({{"tp", 3}});
          for (const std::int64_t m : {1, 3, 17, 64, 300})
            for (const Route route : {Route::ring, Route::one_shot, Route::two_shot}) {
              SpaceOptions options;
              options.route = route;
              const Dtype weight = route == Route::ring ? Dtype::f32 : Dtype::bf16;
              const Producer p =
                  gemv({.m = m, .n = 70, .k = 37, .weight = weight, .addend = m == 17, .residual = true});
              Op op = world.compile(p, all_reduce(mesh, "tp", options));
              std::vector<Data> data;
              for (int r = 0; r < 3; ++r) data.push_back(make_data(p, r, 5));
              const auto full = reference(op.plan(), data)[world.rank()];
              for (const std::int64_t rows : {m, std::int64_t{1}, m / 2, m - 1, std::min<std::int64_t>(m, 25), m}) {
                op.run(data[world.rank()].inputs(p), {.rows = rows});
                EXPECT_LE(error(op.output().data, {full.begin(), full.begin() + rows * 70}), 1e-5) << m << " " << rows;
              }
            }
        },
        {.threads = threads});
}

TEST(Op, ExchangesAnyNumberOfRowsPerPeer) {
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"ep", 4}});
    SpaceOptions options;
    options.route = Route::direct;
    options.rows.assign(16, 6);  // room for six rows from everybody to everybody
    const Producer p = gemm({.m = 24, .n = 10, .k = 5, .tile = {4, 8}});
    Op direct = world.compile(p, all_to_all(mesh, "ep", options));
    options.route = Route::staged;
    Op staged = world.compile(p, all_to_all(mesh, "ep", options));
    std::vector<Data> data;
    for (int r = 0; r < 4; ++r) data.push_back(make_data(p, r, 5));
    const auto full = reference(direct.plan(), data)[world.rank()];
    for (int round = 0; round < 8; ++round) {
      Op& op = round % 2 == 0 ? direct : staged;
      const auto rows = [&](int from, int to) { return (3 * from + 5 * to + round) % 7; };
      std::vector<std::int64_t> counts;
      for (int to = 0; to < 4; ++to) counts.push_back(rows(world.rank(), to));
      op.run(data[world.rank()].inputs(p), {.peers = counts});
      const Matrix y = op.output();
      for (int from = 0; from < 4; ++from) {
        const std::int64_t begin = from * 6 * 10, end = begin + rows(from, world.rank()) * 10;
        EXPECT_LE(error(y.data + begin, {full.begin() + begin, full.begin() + end}), 1e-5);
      }
    }
  });
}

// A run binds its counts in a few stores: what it costs shows where the op has next to nothing to do. Tiles beyond the
// count are claimed and skipped one by one.
TEST(Op, BindingCountsTakesMicroseconds) {
  World::local(1, [](World& world) {
    const std::vector<float> x(4096), w(4096);
    const auto us_a_run = [&](std::int64_t m, std::int64_t n) {
      Op op = world.compile(gemm({.m = m, .n = n, .k = 1}), keep());
      Inputs inputs;
      inputs.x = x.data(), inputs.w = w.data();
      std::vector<double> times;
      for (int i = 0; i < 101; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        op.run(inputs, {.rows = i % 2});
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      }
      std::nth_element(times.begin(), times.begin() + 50, times.end());
      return times[50];
    };
    const double bind = us_a_run(64, 64), skip = us_a_run(4096, 4096);
    ::testing::Test::RecordProperty("bind_counts_us", std::to_string(bind));
    ::testing::Test::RecordProperty("run_of_zero_rows_us", std::to_string(skip));
#ifndef WEFT_SANITIZED
    EXPECT_LE(bind, 20);
#endif
  });
}

// What run() was given may change or go once it has returned, though triggers fire later.
TEST(Op, InputsAndCountsMayGoOnceRunHasReturned) {
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 4}});
    SpaceOptions options;
    options.route = Route::one_shot;
    const Producer p = gemm({.m = 40, .n = 24, .k = 6, .tile = {4, 8}, .bias = true, .residual = true});
    Op reduce = world.compile(p, all_reduce(mesh, "tp", options));
    options.route = Route::ring;
    Op gather = world.compile(all_gather(mesh, "tp", options), gemm({.m = 40, .n = 24, .k = 6, .tile = {4, 8}}));
    std::vector<Data> data;
    for (int r = 0; r < 4; ++r) data.push_back(make_data(p, r, 8));
    const auto reduced = reference(reduce.plan(), data)[world.rank()],
               gathered = reference(gather.plan(), data)[world.rank()];
    for (int run = 0; run < 50; ++run) {
      Data mine = make_data(p, world.rank(), 8);
      reduce.run(mine.inputs(p));
      std::fill(mine.x.begin(), mine.x.end(), 1e9f);
      std::fill(mine.bias.begin(), mine.bias.end(), 1e9f);
      std::fill(mine.residual.begin(), mine.residual.end(), 1e9f);
      EXPECT_LE(error(reduce.output().data, reduced), 1e-4);
      mine = make_data(p, world.rank(), 8);
      {
        std::vector<std::int64_t> counts(4, 40);
        gather.run(mine.inputs(p), {.peers = counts});
        std::fill(counts.begin(), counts.end(), 0);
      }
      EXPECT_LE(error(gather.output().data, gathered), 1e-4);
    }
  });
}

TEST(Op, SeveralAreInFlight) {
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 4}});
    const Producer p = gemm({.m = 29, .n = 31, .k = 8, .tile = {8, 8}});
    Op a = world.compile(p, all_reduce(mesh, "tp"));
    Op b = world.compile(p, reduce_scatter(mesh, "tp"));
    std::vector<Data> data;
    for (int r = 0; r < 4; ++r) data.push_back(make_data(p, r, 3));
    const auto want_a = reference(a.plan(), data)[world.rank()], want_b = reference(b.plan(), data)[world.rank()];
    for (int run = 0; run < 20; ++run) {
      a.run(data[world.rank()].inputs(p));
      b.run(data[world.rank()].inputs(p));
      EXPECT_LE(error(b.output().data, want_b), 1e-5);
      EXPECT_LE(error(a.output().data, want_a), 1e-5);
    }
  });
}

TEST(Op, GroupsOfAMeshRunApart) {
  World::local(6, [](World& world) {
    const Mesh mesh = world.mesh({{"dp", 2}, {"tp", 3}});
    for (const char* axis : {"tp", "dp"}) {
      const Producer p = copy({.rows = 6, .cols = 4});
      Op op = world.compile(p, all_reduce(mesh, axis));
      const std::vector<float> x(24, static_cast<float>(1 << world.rank()));
      op.run(x.data());
      float want = 0;
      for (const int rank : mesh.group(axis, world.rank()).ranks) want += static_cast<float>(1 << rank);
      EXPECT_EQ(op.output().data[23], want);
    }
  });
}

TEST(Op, ComposedPlansRunUnderOneProof) {
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 4}});
    const Producer p = gemm({.m = 32, .n = 12, .k = 9, .tile = {4, 4}});
    const Plan scatter = build(p, reduce_scatter(mesh, "tp"));
    const Plan both = then(scatter, build(copy({.rows = 8, .cols = 12}), all_gather(mesh, "tp")));
    Op op = world.compile(both, mesh, "tp");
    const Plan whole = build(p, all_reduce(mesh, "tp"));
    std::vector<Data> data;
    for (int r = 0; r < 4; ++r) data.push_back(make_data(p, r, 3));
    const auto want = reference(whole, data)[world.rank()];
    std::vector<Inputs> inputs(op.plan().producers.size(), data[world.rank()].inputs(p));
    for (int run = 0; run < 3; ++run) {
      op.run(inputs);
      EXPECT_LE(error(op.output().data, want), 1e-5);
    }
  });
}

TEST(Op, SaysWhatIsWrongWithItsInputs) {
  World::local(1, [](World& world) {
    Op op = world.compile(gemm({.m = 2, .n = 2, .k = 2}), keep());
    try {
      op.run(nullptr, nullptr);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::bad_input);
      EXPECT_STREQ(e.what(), "plan \"gemm keep\" reads x, but the run gives none");
    }
    EXPECT_THROW(world.compile(gemm({.m = 0, .n = 2, .k = 2}), keep()), Error);
    EXPECT_THROW(world.compile(gemm({.m = -4, .n = 2, .k = 2}), keep()), Error);
    EXPECT_THROW(world.mesh({{"tp", 3}}), Error);
    EXPECT_THROW(op.buffer("nothing"), Error);
  });
}

TEST(Op, AMissingAddendIsRefused) {
  World::local(1, [](World& world) {
    const Producer p = gemv({.m = 2, .n = 3, .k = 2, .addend = true});
    Op op = world.compile(p, keep());
    const Data data = make_data(p, 0, 1);
    Inputs in = data.inputs(p);
    in.addend = nullptr;
    try {
      op.run(in);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::bad_input);
      EXPECT_STREQ(e.what(), "plan \"gemv keep\" reads an addend, but the run gives none");
    }
    Producer bags = embedding_bag({.tables = 1, .rows = 2, .dim = 2, .batch = 2});
    bags.addend = true;
    EXPECT_THROW(world.compile(bags, keep()), Error);
  });
}

// The addend is part of a rank's own contribution, rounded with it before another's is added. 2^24 + 1 is no float, so
// another order would give other bits.
TEST(Op, AnAddendIsAddedBeforeOtherRanksContributions) {
  for (const Route route : {Route::ring, Route::one_shot, Route::two_shot})
    World::local(3, [&](World& world) {
      const Mesh mesh = world.mesh({{"tp", 3}});
      const std::int64_t m = 6, n = 40;
      for (const Producer& p : {gemm({.m = m, .n = n, .k = 1, .tile = {2, 16}, .addend = true}),
                                gemv({.m = m, .n = n, .k = 1, .tile = {1, 16}, .addend = true}),
                                copy({.rows = m, .cols = n, .tile = {2, 16}, .addend = true})}) {
        Op op = world.compile(p, all_reduce(mesh, "tp", {.route = route}));
        const std::vector<float> x(num(m * n), 1.0f), w(num(n), 1.0f);
        const std::vector<float> addend(x.size(), world.rank() == 0 ? 16777216.0f : 1.0f);
        Inputs in;
        in.x = x.data(), in.w = w.data(), in.addend = addend.data();
        op.run(in);
        // Rank 0 has 2^24 + 1 = 2^24, the others 2 each: 2^24 + 4, whoever owns the rows.
        for (const float value : op.output().values()) ASSERT_EQ(value, 16777220.0f) << to_string(p.kind);
      }
    });
}

TEST(Op, AnIndexOutsideItsTableIsRefused) {
  World::local(1, [](World& world) {
    const Producer p = embedding_bag({.tables = 1, .rows = 10, .dim = 4, .batch = 3});
    Op op = world.compile(p, keep());
    Data data = make_data(p, 0, 1);
    data.offsets[0] = {0, 1, 2, 3};
    data.indices[0] = {3, 10, 0};
    data.index_pointers = {data.indices[0].data()};
    data.offset_pointers = {data.offsets[0].data()};
    EXPECT_THROW(op.run(data.inputs(p)), Error);
  });
}

}  // namespace
}  // namespace weft::testing
