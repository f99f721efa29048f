// Transfers over paced links, where they take time: values arrive whole, and what overlaps is faster than what stops.
#include "weft/pipeline/exchange.h"

#include <gtest/gtest.h>

#include "weft/base/clock.h"
#include "weft/cluster/cluster.h"
#include "weft/pipeline/gradient_sum.h"
#include "weft/pipeline/small_training_test.h"

namespace weft::pipeline {
namespace {

WorldOptions paced(const char* link) {
  WorldOptions options{.threads = 1};
  options.link = parse_link(link);
  return options;
}

TEST(Exchange, LossesOverPacedLinksAreThoseOfOneRank) {
  TrainConfig config = small_config();
  config.model.u_shaped = true;
  config.steps = 3;
  const SmallResult one = train_small(config);
  for (const char* link : {"200mbit,100us,nic", "200mbit,100us"})
    for (const Strategy strategy : {Strategy::send_recv, Strategy::broadcast, Strategy::local_allgather}) {
      config.stages = {{0, 1, 2}, {0, 2, 2}};
      config.schedule = Kind::eager_1f1b;
      config.transfers.strategy = strategy;
      SCOPED_TRACE(std::string(link) + " " + std::string(to_string(strategy)));
      expect_close(train_small(config, paced(link)).losses, one.losses, 1e-5);
    }
}

// Compute is paced too, so that the times are those of the schedule and not of the machine.
double seconds_of(bool overlap) {
  TrainConfig config = small_config();
  config.stages.assign(2, {});
  config.micro_batches = 8, config.steps = 2;
  config.transfers.overlap = overlap;
  config.schedule = Kind::eager_1f1b;  // 1f1b would wait a round trip of 90 ms per two micro-batches
  settle(&config);
  const TokenData data(small_text(61), config.model.sequence, config.seed);
  double seconds = 0;
  World::local(
      2,
      [&](World& world) {
        Trainer trainer(world, config, data, {.threads = 1, .pace = {10e-3, 20e-3}});
        trainer.step();
        const double took = trainer.step().seconds;
        if (world.rank() == 0) seconds = took;
      },
      paced("800kbit,10us,nic"));  // 1.5 KB take 15 ms
  return seconds;
}

TEST(Exchange, TransfersHideBehindCompute) {
  const double stopping = seconds_of(false), overlapped = seconds_of(true);
  EXPECT_GT(stopping, 8 * 30e-3 + 8 * 20e-3);
  EXPECT_LT(overlapped, 0.85 * stopping);
}

TEST(GradientSum, AddsInTheOrderOfRanksAndTwice) {
  World::local(3,
               [](World& world) {
                 Pump pump;
                 const int rank = world.rank();
                 const Group group = rank < 2 ? Group{{0, 1}, rank} : Group{{2}, 0};
                 GradientSum sum(world, group, 7, &pump);
                 for (int run = 0; run < 3; ++run) {
                   std::vector<float> values(7);
                   for (int i = 0; i < 7; ++i) values[at(i)] = static_cast<float>(i + 100 * rank + run);
                   sum.start(values.data());
                   sum.move_on();
                   sum.finish();
                   for (int i = 0; i < 7; ++i)
                     EXPECT_EQ(values[at(i)], static_cast<float>(rank < 2 ? 2 * (i + run) + 100 : i + 200 + run));
                 }
                 pump.stop();
               },
               {.threads = 1});
}

}  // namespace
}  // namespace weft::pipeline
