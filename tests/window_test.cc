// Windows: what is written through plain pointers arrives as if it had been copied, bit for bit, run after run, on
// thread ranks and on process ranks; a window opens only when its rows may be written; and what cannot be a window says
// so.
#include "weft/world/window.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/plan/price/traffic.h"
#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/child_main.h"

#ifdef WEFT_HAVE_CBLAS
#include <cblas.h>
#endif

namespace weft::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kM = 64, kN = 256, kK = 24;  // 16 rows are 4 pages

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(count);
  for (float& value : out) value = uniform(random);
  return out;
}

// c = x (m, k) times w (k, n), by a BLAS that knows nothing of Weft, or by loops where there is none.
void sgemm(const std::vector<float>& x, const std::vector<float>& w, float* c) {
#ifdef WEFT_HAVE_CBLAS
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kM, kN, kK, 1, x.data(), kK, w.data(), kN, 0, c, kN);
#else
  for (std::int64_t i = 0; i < kM; ++i)
    for (std::int64_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < kK; ++p) sum += x[i * kK + p] * w[p * kN + j];
      c[i * kN + j] = sum;
    }
#endif
}

Space space_of(SpaceKind kind, const Mesh& mesh, Route route = Route::automatic) {
  Space space{kind, mesh, "tp", {}};
  space.options.route = route;
  return space;
}

bool same_bits(const Matrix& a, const Matrix& b) {
  return a.rows == b.rows && a.cols == b.cols && std::memcmp(a.data, b.data, a.values().size_bytes()) == 0;
}

// Seven runs back to back, ranks out of step, every run another product: through the window, and as sgemm into private
// memory followed by the collective alone.
std::string compare_with_copy(World& world) {
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  for (const SpaceKind kind :
       {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all, SpaceKind::keep}) {
    Op op = world.compile(window({.m = kM, .n = kN}), space_of(kind, mesh));
    Op copied = world.compile(copy({.rows = kM, .cols = kN}), space_of(kind, mesh));
    Window window = world.window(op);
    std::vector<float> product(kM * kN);
    for (int run = 0; run < 7; ++run) {
      const std::uint64_t seed = 100 * run + world.rank();
      const auto x = numbers(kM * kK, seed), w = numbers(kK * kN, seed + 7);
      std::this_thread::sleep_for(std::chrono::microseconds(seed * 7919 % 800));
      sgemm(x, w, window.open());
      if (world.window(op).open() != window.open()) return "opening again changes the address";
      op.run();
      sgemm(x, w, product.data());
      copied.run(product.data());
      if (!same_bits(op.output(), copied.output())) return fmt::format("{} differs in run {}", op.plan().name, run);
    }
    const int rank = kind == SpaceKind::keep ? 0 : world.rank();
    if (op.sent().bytes != 7 * traffic(op.plan()).ranks[rank].bytes_to_peers)
      return op.plan().name + " miscounts bytes";
  }
  return {};
}

TEST(Window, BitsAreThoseOfACopyOnThreads) {
  for (const int ranks : {1, 2, 4}) World::local(ranks, [](World& world) { EXPECT_EQ(compare_with_copy(world), ""); });
}

TEST(Window, BitsAreThoseOfACopyOnProcesses) {
  for (const int ranks : {2, 4}) {
    const LaunchResult result = launch({ranks, {"/proc/self/exe", "--child"}});
    EXPECT_EQ(result.exit_code(), 0) << result.reason;
  }
}

TEST(Window, SumIsThatOfEveryRoute) {
  World::local(4, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 4}});
    Op op = world.compile(window({.m = kM, .n = kN}), reduce_scatter(mesh, "tp"));
    const auto mine = numbers(kM * kN, 5 + world.rank());
    std::memcpy(world.window(op).open(), mine.data(), mine.size() * sizeof(float));
    const Matrix sum = world.window(op).close();
    for (const Route route : {Route::ring, Route::direct}) {
      Op other = world.compile(copy({.rows = kM, .cols = kN}), space_of(SpaceKind::reduce_scatter, mesh, route));
      other.run(mine.data());
      EXPECT_TRUE(same_bits(sum, other.output()));
    }
  });
}

TEST(Window, OutputStaysReadableWhileTheNextIsWritten) {
  for (const SpaceKind kind :
       {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all, SpaceKind::keep})
    World::local(3, [&](World& world) {
      Op op = world.compile(window({.m = 48, .n = kN}), space_of(kind, world.mesh({{"tp", 3}})));
      Window window = world.window(op);
      for (int run = 1; run <= 6; ++run) {
        std::fill_n(window.open(), 48 * kN, static_cast<float>(run));
        op.run();
        const Matrix y = op.output();
        std::fill_n(window.open(), 48 * kN, -1.0f);
        std::this_thread::sleep_for(1ms);
        const bool sums = kind == SpaceKind::reduce_scatter || kind == SpaceKind::all_reduce;
        const float expected = static_cast<float>(sums ? 3 * run : run);
        for (const float value : y.values()) ASSERT_EQ(value, expected) << to_string(kind) << ", run " << run;
      }
    });
}

// Whether rank 0 can open its window again although rank 1 has not yet summed what was written before.
bool opens_too_early(const Plan& plan) {
  std::atomic<bool> has_run{false}, has_read{false}, early{false};
  World::local(2,
               [&](World& world) {
                 Op op = world.compile(plan, world.mesh({{"tp", 2}}), "tp");
                 Window window = world.window(op);
                 std::fill_n(window.open(), kM * kN, 1.0f);
                 if (world.rank() == 1) {
                   op.run();
                   has_run = true;
                   std::this_thread::sleep_for(100ms);
                   has_read = true;
                   op.output();
                   return;
                 }
                 while (!has_run) std::this_thread::yield();
                 op.run();
                 window.open();
                 early = !has_read;
               },
               {.prove = false});
  return early;
}

TEST(Window, OpensAgainOnlyWhenItsRowsHaveBeenSummed) {
  Plan plan = build(window({.m = kM, .n = kN}), reduce_scatter(Mesh({{"tp", 2}}), "tp"));
  EXPECT_FALSE(opens_too_early(plan));
  for (Rule& rule : plan.rules)
    if (rule.kind == ActionKind::step) rule.waits.clear();
  EXPECT_TRUE(opens_too_early(plan)) << "the test sees nothing";
}

TEST(Window, NamesTheOwnerThatDoesNotComeAlong) {
  setenv("WEFT_WAIT_S", "0.3", 1);
  std::string said;
  std::atomic<bool> has_run{false};
  World::local(2, [&](World& world) {
    Op op = world.compile(window({.m = kM, .n = kN}), reduce_scatter(world.mesh({{"tp", 2}}), "tp"));
    Window window = world.window(op);
    window.open();
    while (world.rank() == 0 && !has_run) std::this_thread::yield();
    op.run();
    has_run = true;
    if (world.rank() == 1) std::this_thread::sleep_for(600ms);  // alive, but too late with its sum
    if (world.rank() == 1) return;
    try {
      op.output();
      window.open();
    } catch (const Error& error) {
      said = error.what();
      EXPECT_EQ(error.rank(), 1);
    }
  });
  unsetenv("WEFT_WAIT_S");
  EXPECT_NE(said.find("rank 0 waited 0.3 s to open its window"), std::string::npos) << said;
  EXPECT_NE(said.find("credit[1]"), std::string::npos) << said;
}

std::string refusal_to_open(int ranks, std::int64_t m, std::int64_t n) {
  std::string said;
  World::local(ranks, [&](World& world) {
    Op op = world.compile(window({.m = m, .n = n}), reduce_scatter(world.mesh({{"tp", ranks}}), "tp"));
    const std::string mine = refusal([&] { world.window(op).open(); });
    if (world.rank() == 0) said = mine;
  });
  return said;
}

TEST(Window, RefusesRowsThatAreNoWholePagesAndSaysWhichAre) {
  const std::string said = refusal_to_open(4, 100, 256);  // 25 rows of 1 KB
  EXPECT_NE(said.find("rows 75 to 100, for rank 3, are bytes 76800 to 102400, and a page has 4096"), std::string::npos)
      << said;
  EXPECT_NE(said.find("use m = 112 or n = 1024, or ld = 1024"), std::string::npos) << said;
  EXPECT_EQ(refusal_to_open(4, 112, 256), "did not throw");
  EXPECT_EQ(refusal_to_open(4, 100, 1024), "did not throw");
  const std::string ragged = refusal_to_open(3, 100, 1000);  // 34, 33 and 33 rows
  EXPECT_NE(ragged.find("use m = 384"), std::string::npos) << ragged;
  EXPECT_EQ(refusal_to_open(3, 384, 1000), "did not throw");
}

// 34, 33 and 33 rows, which are pages only because they lie 1024 floats apart. What lies between them is nobody's.
TEST(Window, RowsThatAreNoWholePagesLieFartherApart) {
  static constexpr std::int64_t kRows = 100, kCols = 1000;
  World::local(3, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 3}});
    for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_reduce}) {
      const std::int64_t ld = window_ld(kRows, kCols, 3);
      Op op = world.compile(window({.m = kRows, .n = kCols, .ld = ld}), space_of(kind, mesh));
      Op copied = world.compile(copy({.rows = kRows, .cols = kCols}), space_of(kind, mesh));
      Window window = world.window(op);
      EXPECT_EQ(window.ld(), ld);
      EXPECT_EQ(window.cols(), kCols);
      for (int run = 0; run < 5; ++run) {
        const auto mine = numbers(kRows * kCols, 10 * run + world.rank());
        float* rows = window.open();
        std::fill_n(rows, kRows * ld, -1e9f);
        for (std::int64_t i = 0; i < kRows; ++i) std::copy_n(mine.data() + i * kCols, kCols, rows + i * ld);
        op.run();
        copied.run(mine.data());
        ASSERT_TRUE(same_bits(op.output(), copied.output())) << op.plan().name << ", run " << run;
        op.run(mine.data());
        ASSERT_TRUE(same_bits(op.output(), copied.output())) << op.plan().name << " of a copy, run " << run;
      }
    }
  });
}

TEST(Window, RefusesDistancesOfRowsThatCannotBe) {
  const Mesh mesh({{"tp", 2}});
  EXPECT_NE(refusal([&] {
              build(window({.m = 64, .n = 64, .ld = 63}), reduce_scatter(mesh, "tp"));
            }).find("cannot lie 63 elements apart; use ld = 64 or more"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              build(window({.m = 64, .n = 64, .ld = 128}), all_to_all(mesh, "tp"));
            }).find("leave out ld, which is 128"),
            std::string::npos);
}

TEST(Window, RefusesWhatCannotBeWritten) {
  World::local(2, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    Op made = world.compile(gemm({.m = 64, .n = 64, .k = 8}), reduce_scatter(mesh, "tp"));
    EXPECT_NE(refusal([&] { world.window(made); }).find("compile weft::window({.m, .n})"), std::string::npos);
    SpaceOptions columns;
    columns.stack = Stack::columns;
    Op beside = world.compile(window({.m = 64, .n = 1024}), all_to_all(mesh, "tp", columns));
    EXPECT_NE(refusal([&] { world.window(beside); }).find("stack by rows"), std::string::npos);
    Op op = world.compile(window({.m = kM, .n = kN}), reduce_scatter(mesh, "tp"));
    EXPECT_NE(refusal([&] { op.run(); }).find("call world.window(op).open() before run()"), std::string::npos);
    Window window = world.window(op);
    EXPECT_NE(refusal([&] { op.run(); }).find("is not open"), std::string::npos);
    EXPECT_NE(refusal([&] { window.close(); }).find("is not open"), std::string::npos);
    // A run that is refused leaves the window as it is.
    window.open();
    const std::vector<std::int64_t> too_many(3, 1);
    EXPECT_NE(refusal([&] { op.run(Inputs{}, {.peers = too_many}); }).find("counts are given for 3"),
              std::string::npos);
    op.run();
    op.output();
    EXPECT_EQ(window.rows(), kM);
    EXPECT_EQ(window.cols(), kN);
    { const Op gone = std::move(op); }
    EXPECT_NE(refusal([&] { window.open(); }).find("the op of this window is gone"), std::string::npos);
  });
}

int child() {
  World world = World::init();
  return verdict_of(world.rank(), compare_with_copy(world));
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords&) { return child(); });
}
