// Times that modes are chosen by: one per choice, the same on all ranks.
#include "weft/llm/spd/mode_times.h"

#include <mutex>

#include <gtest/gtest.h>

#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

TEST(ModeTimes, AllRanksHaveTheSameFigures) {
  for (const int ranks : {1, 2, 3}) {
    std::mutex lock;
    std::vector<std::vector<double>> found;
    World::local(ranks, [&](World& world) {
      const Model model = Model::load(golden_folders()[1], world.rank(), world.size());
      const std::int64_t blocks = model.config().blocks;
      const std::vector<Modes> choices{all_blocks(blocks, {}), all_blocks(blocks, {.drop = true}),
                                       all_blocks(blocks, {.drop = false, .wire = BlockWire::int8})};
      const auto mine = forward_seconds(world, model, {.rows = 24, .rounds = 3}, choices);
      const std::lock_guard guard(lock);
      found.push_back(mine);
    });
    ASSERT_EQ(std::ssize(found), ranks);
    for (const auto& mine : found) {
      ASSERT_EQ(mine.size(), 3u);
      for (const double seconds : mine) EXPECT_GT(seconds, 0);
      EXPECT_EQ(mine, found[0]) << "or ranks would choose differently";
    }
  }
}

TEST(ModeTimes, SyncComesFirst) {
  World::local(2, [](World& world) {
    const Model model = Model::load(golden_folders()[1], world.rank(), world.size());
    const std::vector<BlockMode> modes{{.drop = true}, {.drop = true, .wire = BlockWire::bf16}};
    // More rows than the model has positions are as many as it has.
    const auto times = measure_modes(world, model, {.rows = 1 << 20, .rounds = 1}, modes);
    ASSERT_EQ(times.size(), 3u);
    EXPECT_EQ(times[0].mode, BlockMode{});
    EXPECT_EQ(times[1].mode, modes[0]);
    EXPECT_EQ(times[2].mode, modes[1]);
    for (const ModeTime& time : times) EXPECT_GT(time.forward_s, 0);
  });
}

}  // namespace
}  // namespace weft
