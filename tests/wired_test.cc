// Ops between ranks that do not reach each other's memory: the real wire, over the loopback device, thread ranks as
// hosts. Bits must be those of the same plan over memory.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/plan/price/traffic.h"
#include "weft/weft.h"

#include "tests/cases.h"
#include "tests/moves.h"

namespace weft::testing {
namespace {

class Wired : public ::testing::TestWithParam<WireKind> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "not in this build (libssl-dev, libucx-dev)";
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Wired, ::testing::Values(WireKind::tls, WireKind::ucx),
                         [](const auto& info) { return std::string(to_string(info.param)); });

WorldOptions wired(WireKind kind, int ranks_per_host, int threads = 1) {
  WorldOptions options;
  options.wire = kind;
  options.ranks_per_host = ranks_per_host;
  options.threads = threads;
  return options;
}

// Three runs back to back of every `stride`-th case; all ranks' outputs, one after the other.
std::vector<std::vector<float>> outputs_of(int num_ranks, std::size_t stride, const WorldOptions& options) {
  std::vector<std::vector<float>> out(num(num_ranks));
  World::local(
      num_ranks,
      [&](World& world) {
        const auto cases = all_cases(num_ranks);
        for (std::size_t i = 0; i < cases.size(); i += stride) {
          const Case& c = cases[i];
          Op op = compile(world, c);
          const int rank = c.space.kind == SpaceKind::keep ? 0 : world.rank();
          const Data data = make_data(c.producer, rank, 3);
          for (int run = 0; run < 3; ++run) op.run(data.inputs(c.producer));
          const Matrix y = op.output();
          auto& mine = out[world.rank()];
          mine.insert(mine.end(), y.data, y.data + y.rows * y.cols);
        }
      },
      options);
  return out;
}

void expect_equal_bits(int num_ranks, std::size_t stride, const WorldOptions& options) {
  const auto over_memory = outputs_of(num_ranks, stride, {});
  const auto over_wire = outputs_of(num_ranks, stride, options);
  for (int rank = 0; rank < num_ranks; ++rank) {
    ASSERT_EQ(over_wire[rank].size(), over_memory[rank].size());
    EXPECT_EQ(std::memcmp(over_wire[rank].data(), over_memory[rank].data(), over_memory[rank].size() * 4), 0)
        << "rank " << rank;
  }
}

TEST_P(Wired, BitsAreThoseOfSharedMemory) {
  expect_equal_bits(2, 3, wired(GetParam(), 1));
  expect_equal_bits(3, 7, wired(GetParam(), 1));
}

TEST_P(Wired, HostMatesUseMemoryAndOthersTheWire) { expect_equal_bits(4, 11, wired(GetParam(), 2)); }

TEST_P(Wired, ThreadsOfARankShareTheWire) { expect_equal_bits(2, 11, wired(GetParam(), 1, 3)); }

// A thousand runs in one world, no barrier between them, each rank late now and then: an input that changes with the
// run, so that a row that came too early or too late would show.
TEST_P(Wired, AThousandRunsBackToBackStayInStep) {
  constexpr int kRuns = 1000;
  for (const int num_ranks : {2, 3, 4, 8})
    World::local(
        num_ranks,
        [&](World& world) {
          const Mesh mesh = world.mesh({{"tp", num_ranks}});
          const std::int64_t rows = num_ranks, cols = 64;
          Op sums = world.compile(copy({.rows = rows, .cols = cols}), all_reduce(mesh, "tp"));
          Op parts = world.compile(copy({.rows = rows, .cols = cols}), all_to_all(mesh, "tp"));
          std::mt19937 random(num(world.rank()));
          std::vector<float> x(num(rows * cols));
          for (int run = 0; run < kRuns; ++run) {
            if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
            std::fill(x.begin(), x.end(), static_cast<float>(run + world.rank()));
            sums.run(x.data());
            parts.run(x.data());
            const float all = static_cast<float>(num_ranks * run + num_ranks * (num_ranks - 1) / 2);
            for (const float value : sums.output().values()) ASSERT_EQ(value, all) << "run " << run;
            const auto got = parts.output().values();
            for (std::size_t i = 0; i < got.size(); ++i)
              ASSERT_EQ(got[i], static_cast<float>(run + static_cast<int>(i * num(num_ranks) / got.size())))
                  << "run " << run << " at " << i;
          }
        },
        wired(GetParam(), num_ranks == 8 ? 2 : 1));
}

// As on devices that write remote memory: here UCX does it over TCP, with the same calls.
TEST_P(Wired, BitsAreTheSameWhereRowsArePutIntoRemoteMemory) {
  if (GetParam() != WireKind::ucx) GTEST_SKIP() << "messages alone";
  ASSERT_EQ(setenv("WEFT_WIRE_PUT", "always", 1), 0);
  expect_equal_bits(2, 3, wired(GetParam(), 1));
  expect_equal_bits(4, 11, wired(GetParam(), 2));
  expect_equal_bits(2, 11, wired(GetParam(), 1, 3));
  ASSERT_EQ(setenv("WEFT_WIRE_PUT", "sometimes", 1), 0);
  EXPECT_THROW(World::local(
                   2, [](World&) {}, wired(GetParam(), 1)),
               Error);
  unsetenv("WEFT_WIRE_PUT");
}

// Rows of 4 MB cannot be staged whole, and tiles of 1 MB neither.
TEST_P(Wired, WideRowsAndLargeTilesTravelInPieces) {
  World::local(
      2,
      [](World& world) {
        const Mesh mesh = world.mesh({{"all", 2}});
        const std::int64_t n = 1 << 20;
        Op op = world.compile(copy({.rows = 2, .cols = n}), all_gather(mesh, "all"));
        std::vector<float> x(num(2 * n));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(world.rank() * 10 + i % 7);
        for (int run = 0; run < 3; ++run) op.run(x.data());
        const Matrix y = op.output();
        for (std::int64_t i = 0; i < 4 * n; i += 4093)
          ASSERT_EQ(y.data[i], static_cast<float>((i / (2 * n)) * 10 + i % (2 * n) % 7)) << i;
      },
      wired(GetParam(), 1));
}

TEST_P(Wired, SendsWhatThePlanSays) {
  World::local(
      2,
      [](World& world) {
        const Mesh mesh = world.mesh({{"tp", 2}});
        Op op = world.compile(gemm({.m = 512, .n = 256, .k = 16}), reduce_scatter(mesh, "tp"));
        std::vector<float> x(512 * 16, 1.0f), w(16 * 256, 1.0f);
        for (int run = 0; run < 4; ++run) op.run(x.data(), w.data());
        EXPECT_EQ(op.output().data[0], 32.0f);
        const Traffic plan = traffic(op.plan(), Expander(op.plan()).program(world.rank()));
        EXPECT_EQ(op.sent().bytes, 4 * plan.bytes_to_peers);
      },
      wired(GetParam(), 1));
}

// From bf16 to f32 and from f32 to bf16, in rows too wide to be staged whole: what crosses is bf16 either way.
TEST_P(Wired, NarrowValuesCrossNarrow) {
  constexpr std::int64_t kRows = 4, kCols = 300'000;
  for (const bool widens : {true, false}) {
    Moves moves{.num_ranks = 2, .rows = kRows, .cols = kCols, .tile_rows = 2, .list = {{0, 1, 0, kRows}}};
    (widens ? moves.source : moves.target) = Dtype::bf16;
    std::vector<bf16> narrow;
    std::vector<float> wide;
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      wide.push_back(static_cast<float>(i % 251) - 125);
      narrow.push_back(to_bf16(wide.back()));
    }
    World::local(
        2,
        [&](World& world) {
          Op op = world.compile(plan_of(moves), world.mesh({{"all", 2}}), "all");
          const void* x = widens ? static_cast<const void*>(narrow.data()) : wide.data();
          for (int run = 0; run < 3; ++run) testing::run(op, x);
          const BufferView y = op.view("y");
          if (world.rank() == 1) {
            EXPECT_EQ(std::memcmp(y.data, widens ? static_cast<const void*>(wide.data()) : narrow.data(),
                                  kRows * kCols * (widens ? 4 : 2)),
                      0);
          }
          const Traffic plan = traffic(op.plan(), Expander(op.plan()).program(world.rank()));
          EXPECT_EQ(plan.bytes_to_peers, world.rank() == 0 ? kRows * kCols * 2 : 0);
          EXPECT_EQ(op.sent().bytes, 3 * plan.bytes_to_peers);
        },
        wired(GetParam(), 1));
  }
}

TEST_P(Wired, WindowRowsOfOtherHostsAreSent) {
  World::local(
      2,
      [](World& world) {
        const Mesh mesh = world.mesh({{"tp", 2}});
        Op op = world.compile(window({.m = 2048, .n = 64}), reduce_scatter(mesh, "tp"));
        Window window = world.window(op);
        for (int run = 1; run <= 3; ++run) {
          float* c = window.open();
          for (std::int64_t i = 0; i < 2048 * 64; ++i) c[i] = static_cast<float>(i % 1000 + run * (world.rank() + 1));
          const Matrix y = window.close();
          const std::int64_t first = world.rank() * 1024 * 64;
          for (std::int64_t i = 0; i < 1024 * 64; i += 97)
            ASSERT_EQ(y.data[i], static_cast<float>(2 * ((first + i) % 1000) + 3 * run));
        }
      },
      wired(GetParam(), 1));
}

TEST_P(Wired, NarrowWindowRowsOfOtherHostsAreSent) {
  World::local(
      2,
      [](World& world) {
        const Mesh mesh = world.mesh({{"tp", 2}});
        Op op = world.compile(window({.m = 2048, .n = 64, .dtype = Dtype::bf16}), all_reduce(mesh, "tp"));
        Window window = world.window(op);
        for (int run = 1; run <= 3; ++run) {
          bf16* c = window.open_narrow();
          for (std::int64_t i = 0; i < 2048 * 64; ++i)
            c[i] = to_bf16(static_cast<float>(i % 50 + run * (world.rank() + 1)));
          op.run();
          const auto* y = static_cast<const bf16*>(op.view("y").data);
          for (std::int64_t i = 0; i < 2048 * 64; i += 97)
            ASSERT_EQ(to_float(y[i]), static_cast<float>(2 * (i % 50) + 3 * run));
        }
      },
      wired(GetParam(), 1));
}

TEST_P(Wired, PacedLinksAreRefused) {
  WorldOptions options = wired(GetParam(), 1);
  options.link = Link{.bytes_per_s = 1e9};
  EXPECT_THROW(World::local(
                   2, [](World&) {}, options),
               Error);
}

TEST_P(Wired, MeshesKnowWhoSharesAHost) {
  World::local(
      4,
      [](World& world) {
        const Mesh mesh = world.mesh({{"tp", 4}});
        EXPECT_EQ(mesh.hosts(), (std::vector<int>{0, 0, 1, 1}));
        EXPECT_EQ(world.cluster(4).ranks_per_host, 2);
        EXPECT_EQ(world.cluster(4).num_hosts, 2);
        EXPECT_EQ(world.transport(), to_string(GetParam()));
        EXPECT_TRUE(world.has_wire());
      },
      wired(GetParam(), 2));
}

}  // namespace
}  // namespace weft::testing
