// Windows in bf16: what is written arrives as the reference executor says, and as a copy of the same rows does, bit for
// bit, on thread ranks and on process ranks; a link carries half the bytes; and the wrong pointer is refused.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/exec/ref/ref.h"
#include "weft/plan/price/traffic.h"
#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/child_main.h"

namespace weft::testing {
namespace {

constexpr std::int64_t kM = 96, kN = 256;  // 8 rows are a page: 1, 2, 3 and 4 ranks have whole ones

constexpr SpaceKind kKinds[]{SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all, SpaceKind::keep};

std::vector<bf16> narrow_numbers(std::int64_t count, int seed) {
  std::mt19937_64 random(num(seed));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<bf16> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(to_bf16(uniform(random)));
  return out;
}

int seed_of(int run, int rank) { return 100 * run + rank; }

bool same_bits(const BufferView& a, const BufferView& b) {
  return a.dtype == Dtype::bf16 && b.dtype == Dtype::bf16 && a.bytes == b.bytes &&
         std::memcmp(a.data, b.data, a.bytes) == 0;
}

void write(const std::vector<bf16>& rows, std::int64_t cols, std::int64_t ld, bf16* to) {
  for (std::size_t i = 0; i < rows.size() / num(cols); ++i)
    std::copy_n(rows.data() + i * num(cols), cols, to + i * num(ld));
}

// The reference executor's output of this rank, which copies x: there are no pages there.
std::vector<float> expected_of(const Plan& plan, int run, int rank) {
  std::vector<std::vector<bf16>> x;
  std::vector<Bindings> bindings(num(plan.num_ranks));
  for (int r = 0; r < plan.num_ranks; ++r) {
    // A plan of keep is one rank's own.
    x.push_back(
        narrow_numbers(plan.producers[0].m * plan.producers[0].n, seed_of(run, plan.num_ranks == 1 ? rank : r)));
    bindings[num(r)].producers.emplace_back().narrow_x = x.back().data();
    bindings[num(r)].buffers.assign(plan.buffers.size(), nullptr);
  }
  RefExecutor ref(plan);
  ref.run(bindings);
  return ref.output(plan.num_ranks == 1 ? 0 : rank);
}

// Five runs back to back, every one with other rows: through the window, given as x, and by the collective alone.
std::string compare(World& world, SpaceKind kind, std::int64_t m, std::int64_t n) {
  const Space space{kind, world.mesh({{"tp", world.size()}}), "tp", {}};
  const std::int64_t ld = kind == SpaceKind::all_to_all ? 0 : window_ld(m, n, world.size(), Dtype::bf16);
  Op op = world.compile(window({.m = m, .n = n, .ld = ld, .dtype = Dtype::bf16}), space);
  Op copied = world.compile(copy({.rows = m, .cols = n, .dtype = Dtype::bf16}), space);
  Window window = world.window(op);
  if (window.dtype() != Dtype::bf16) return "is no window of bf16";
  for (int run = 0; run < 5; ++run) {
    const auto mine = narrow_numbers(m * n, seed_of(run, world.rank()));
    write(mine, n, window.ld(), window.open_narrow());
    op.run();
    Inputs given;
    given.narrow_x = mine.data();
    copied.run(given);
    if (!same_bits(op.view("y"), copied.view("y"))) return fmt::format("{} differs in run {}", op.plan().name, run);
    if (run < 4) continue;  // the reference takes its time
    const auto expected = expected_of(op.plan(), run, world.rank());
    const auto* y = static_cast<const bf16*>(op.view("y").data);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (to_float(y[i]) != expected[i]) return fmt::format("{} is not the reference's at {}", op.plan().name, i);
  }
  const int rank = op.plan().num_ranks == 1 ? 0 : world.rank();
  if (op.sent().bytes != 5 * traffic(op.plan()).ranks[num(rank)].bytes_to_peers) return "miscounts bytes";
  const auto mine = narrow_numbers(m * n, seed_of(7, world.rank()));
  Inputs given;
  given.narrow_x = mine.data();
  op.run(given), copied.run(given);
  return same_bits(op.view("y"), copied.view("y")) ? "" : op.plan().name + " given x differs";
}

std::string compare_all(World& world) {
  for (const SpaceKind kind : kKinds)
    if (const std::string said = compare(world, kind, kM, kN); !said.empty()) return said;
  // Rows of 33 or 34, that are pages only because they lie farther apart.
  for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_reduce})
    if (const std::string said = world.size() == 1 ? "" : compare(world, kind, 100, 1000); !said.empty())
      return "far apart: " + said;
  return {};
}

TEST(NarrowWindow, BitsAreThoseOfTheReferenceAndOfACopyOnThreads) {
  for (const int ranks : {1, 2, 3, 4}) World::local(ranks, [](World& world) { EXPECT_EQ(compare_all(world), ""); });
}

TEST(NarrowWindow, BitsAreThoseOfTheReferenceAndOfACopyOnProcesses) {
  const LaunchResult result = launch({2, {"/proc/self/exe", "--child"}});
  EXPECT_EQ(result.exit_code(), 0) << result.reason;
}

// 1 + 2^-8 rounds to 1 in bf16: rounded at every step, all three small ones would be lost where 1 comes first.
TEST(NarrowWindow, SumsAreRoundedOnce) {
  World::local(4, [](World& world) {
    Op op = world.compile(window({.m = kM, .n = kN, .dtype = Dtype::bf16}), all_reduce(world.mesh({{"tp", 4}}), "tp"));
    std::fill_n(world.window(op).open_narrow(), kM * kN, to_bf16(world.rank() == 0 ? 1.0f : 0x1p-8f));
    op.run();
    const BufferView y = op.view("y");
    for (std::size_t i = 0; i < num(kM * kN); ++i)
      ASSERT_EQ(to_float(static_cast<const bf16*>(y.data)[i]), to_float(to_bf16(1.0f + 3 * 0x1p-8f)));
  });
}

// 48 rows of 512 bytes cross to the other rank at 1 MB/s. A rank that comes second finds part of its rows on their way,
// so the one that came first tells how long they took.
TEST(NarrowWindow, ALinkIsOccupiedByWhatWasWritten) {
  WorldOptions options;
  options.link = Link{.bytes_per_s = 1e6};
  std::array<double, 2> seconds{};
  World::local(
      2,
      [&seconds](World& world) {
        Op op = world.compile(window({.m = kM, .n = kN, .dtype = Dtype::bf16}),
                              reduce_scatter(world.mesh({{"tp", 2}}), "tp"));
        std::fill_n(world.window(op).open_narrow(), kM * kN, to_bf16(1));
        const auto begin = std::chrono::steady_clock::now();
        op.run();
        op.view("y");
        seconds[num(world.rank())] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      },
      options);
  EXPECT_GT(std::max(seconds[0], seconds[1]), 0.024);
}

TEST(NarrowWindow, RefusesTheWrongPointerAndRowsThatAreNoWholePages) {
  World::local(2, [](World& world) {
    const Space space = reduce_scatter(world.mesh({{"tp", 2}}), "tp");
    Op narrow = world.compile(window({.m = kM, .n = kN, .dtype = Dtype::bf16}), space);
    Op wide = world.compile(window({.m = kM, .n = kN}), space);
    EXPECT_NE(refusal([&] { world.window(narrow).open(); }).find("is written in bf16; open it with open_narrow()"),
              std::string::npos);
    EXPECT_NE(refusal([&] { world.window(wide).open_narrow(); }).find("is written in f32; open it with open()"),
              std::string::npos);
    world.window(narrow).open_narrow();
    EXPECT_NE(refusal([&] { world.window(narrow).close(); }).find("op.view(\"y\")"), std::string::npos);
    narrow.run();
    EXPECT_NE(refusal([&] { narrow.output(); }).find("holds bf16, not f32"), std::string::npos);
    // 8 rows of 256 floats are two pages, of bf16 one; 4 rows are one and half a page.
    Op half = world.compile(window({.m = 8, .n = kN, .dtype = Dtype::bf16}), space);
    const std::string said = refusal([&] { world.window(half); });
    EXPECT_NE(said.find("a window of 8 x 256 bf16 cannot be shared out"), std::string::npos) << said;
    EXPECT_NE(said.find("use m = 16 or n = 512, or ld = 512"), std::string::npos) << said;
  });
}

int child() {
  World world = World::init();
  return verdict_of(world.rank(), compare_all(world));
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords&) { return child(); });
}
