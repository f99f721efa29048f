// Plans of random reshards are proved, whatever the strategy, the tiles and who shares ranks with whom.
#include <gtest/gtest.h>

#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/reshard/build/build.h"
#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

// Tensors of at most some thousand elements, so that a plan is proved in milliseconds.
Instance small_tangle(std::uint64_t seed) {
  Instance instance = random_tangle(seed, seed % 2 == 0);
  for (Transfer& transfer : instance.reshard.transfers) {
    for (std::int64_t& size : transfer.destination.shape) size = std::min<std::int64_t>(size, 18);
    transfer.parts[0].tensor.shape = transfer.destination.shape;
  }
  return instance;
}

TEST(ReshardProved, EveryStrategyOnAnyMeshes) {
  for (std::uint64_t seed = 0; seed < 24; ++seed)
    for (const Strategy strategy :
         {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather, Strategy::broadcast}) {
      SCOPED_TRACE(std::to_string(seed) + " " + std::string(to_string(strategy)));
      const Instance instance = small_tangle(seed);
      ReshardOptions options;
      options.schedule.strategy = strategy;
      options.tile_bytes = seed % 3 == 0 ? 0 : 64 << seed % 4;
      const Plan plan = build(instance.reshard, instance.network, options);
      const Verdict verdict = verify(plan);
      EXPECT_TRUE(verdict.ok()) << verdict.problems.front();
      EXPECT_EQ(to_json(parse_plan(to_json(plan), "saved")), to_json(plan)) << "it is read as it was written";
    }
}

TEST(ReshardProved, TheSameReshardIsTheSamePlan) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Instance instance = small_tangle(seed);
    EXPECT_EQ(to_json(build(instance.reshard, instance.network)), to_json(build(instance.reshard, instance.network)));
  }
}

}  // namespace
}  // namespace weft
