// The product in panels: every rank starts its collectives in the same order, however late what it waits for comes.
#include <chrono>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/llm/engine/reduction.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// Rank 0's NIC is busy for 80 ms with an op of before, so its blocks come late to rank 1, while those of rank 1 come
// early to rank 0. Signals without bytes pass both. A gather that begins when its blocks are there then begins before
// the next exchange on rank 0 and after it on rank 1.
TEST(ReductionPanels, ABusyNicChangesNoOrder) {
  setenv("WEFT_WAIT_S", "5", 1);
  WorldOptions options;
  options.link = Link{.bytes_per_s = 50e6, .latency_s = 10e-6, .fabric = Fabric::nic};
  World::local(
      2,
      [](World& world) {
        const Mesh mesh = world.mesh({{"tp", 2}});
        Op before = world.compile(copy({.rows = 1000, .cols = 1000}), broadcast(mesh, "tp", {.root = 0}));
        const std::vector<float> much(1000 * 1000);
        const ReductionShape shape{.rows = 64, .n = 32, .k = 4096};
        const std::vector<float> x(num(shape.rows * shape.k), 1), w(num(shape.n * shape.k), 1);
        const auto product = make_reduction(
            world, shape, {.style = Style::panels, .panels = 8, .threads = &world.threads(), .priced_k = shape.k});
        for (int run = 0; run < 3; ++run) {
          world.barrier();
          before.run(much.data());
          const float* y = product->run({.x = x.data(), .w = w.data()}, shape.rows);
          for (std::int64_t i = 0; i < shape.rows * shape.n; ++i) ASSERT_EQ(y[i], 2 * 4096.0f);
        }
      },
      options);
  unsetenv("WEFT_WAIT_S");
}

}  // namespace
}  // namespace weft
