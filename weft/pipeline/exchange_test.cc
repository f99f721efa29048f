// Transfers over paced links, where they take time: values arrive whole, and what overlaps is faster than what stops.
#include "weft/pipeline/exchange.h"

#include <algorithm>

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
  double stopping = seconds_of(false), overlapped = seconds_of(true);
  EXPECT_GT(stopping, 8 * 30e-3 + 8 * 20e-3);
  for (int again = 0; again < 4 && overlapped > 0.85 * stopping; ++again)  // others may hold the cores
    overlapped = std::min(overlapped, seconds_of(true));
  EXPECT_LT(overlapped, 0.85 * stopping);
}

// Whatever the machine does meanwhile: a stage has sent and computes on before the receiver so much as has room.
TEST(Exchange, SendsReturnBeforeAnybodyReceives) {
  TrainConfig config = small_config();
  config.stages.assign(2, {});
  settle(&config);
  const Places places(config);
  World::local(2,
               [&](World& world) {
                 Pump pump;
                 Exchange exchange(world, places, {.rows = 4, .cols = 32, .peak_activations = {2, 1}}, &pump);
                 const std::vector<float> value(4 * 32, 3.0f);
                 if (world.rank() == 0) {
                   exchange.expect(1);
                   exchange.send(2, 0, value.data());
                   world.barrier();
                   std::vector<float> gradient(4 * 32);
                   EXPECT_TRUE(exchange.add_gradients(2, 0, gradient.data(), Into::store));
                   EXPECT_EQ(gradient[5], 3.0f);
                 } else {
                   world.barrier();
                   exchange.expect(1);
                   exchange.send_gradient(2, 0, exchange.receive(2, 0, nullptr));
                 }
                 exchange.drain();
                 pump.stop();
               },
               {.threads = 1});
}

TEST(Exchange, StreamedAndWholeValuesAreTheSameToTheBit) {
  TrainConfig config = small_config();
  const std::vector<std::vector<StageSize>> meshes = {
      {{0, 1, 1}, {0, 1, 1}}, {{0, 2, 1}, {0, 1, 2}}, {{1, 1, 1}, {2, 2, 1}, {1, 1, 1}}};
  for (const bool u_shaped : {false, true})
    for (const auto& mesh : meshes)
      for (const Precision precision : {Precision::f32, Precision::bf16}) {
        config.model.u_shaped = u_shaped;
        config.stages = mesh, config.precision = precision, config.schedule = Kind::eager_1f1b;
        config.transfers.stream = true;
        const SmallResult streamed = train_small(config);
        config.transfers.stream = false;
        EXPECT_EQ(streamed.losses, train_small(config).losses) << config.num_ranks() << " ranks, u " << u_shaped;
      }
}

TEST(Exchange, StreamedValuesTakeEveryStrategy) {
  TrainConfig config = small_config();
  config.stages = {{0, 2, 1}, {0, 1, 2}};
  config.steps = 3;
  config.transfers.stream = false;
  const SmallResult whole = train_small(config);
  config.transfers.stream = true;
  for (const Strategy strategy :
       {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather, Strategy::broadcast}) {
    config.transfers.strategy = strategy;
    EXPECT_EQ(train_small(config, paced("200mbit,100us,nic")).losses, whole.losses) << to_string(strategy);
  }
}

// The value that ends stage 0 is made in 2 x 3 tiles of at most 64 x 64: each is a message of its own, so that the
// first leaves before the second is made.
TEST(Exchange, TheLastProductOfAStageLeavesTileByTile) {
  TrainConfig config = small_config();
  config.model.hidden = 160, config.model.sequence = 65, config.micro_batches = 8;
  config.stages.assign(2, {});
  settle(&config);
  const Places places(config);
  for (const bool stream : {true, false})
    World::local(2,
                 [&](World& world) {
                   Pump pump;
                   ExchangeOptions options{.rows = 65, .cols = 160, .peak_activations = {2, 1}, .product_k = 48};
                   options.transfers.stream = stream;
                   Exchange exchange(world, places, options, &pump);
                   EXPECT_EQ(exchange.streams(2), stream && world.rank() == 0);
                   EXPECT_FALSE(exchange.streams(1));
                   exchange.expect(1);
                   if (world.rank() == 0) {
                     const std::vector<float> h(65 * 48, 0.5f), w(160 * 48, 2.0f), x(65 * 160, 0.25f),
                         y(65 * 160, 48.25f);
                     if (stream)
                       exchange.send_product(2, 0, {h.data(), w.data(), x.data()});
                     else
                       exchange.send(2, 0, y.data());
                     std::vector<float> gradient(65 * 160);
                     EXPECT_TRUE(exchange.add_gradients(2, 0, gradient.data(), Into::store));
                     EXPECT_EQ(exchange.sent(2).signals, stream ? 6 : 1);
                     EXPECT_EQ(exchange.sent(2).bytes, 65 * 160 * 4);
                   } else {
                     const float* got = exchange.receive(2, 0, nullptr);
                     for (int i = 0; i < 65 * 160; ++i) ASSERT_EQ(got[i], 48.25f) << i;
                     exchange.send_gradient(2, 0, got);
                   }
                   exchange.drain();
                   pump.stop();
                 },
                 {.threads = 1});
}

TEST(Places, OnlyAStageOfItsOwnSumsEndsInAProduct) {
  TrainConfig config = small_config();
  const auto streamed = [&](std::vector<StageSize> stages) {
    config.stages = std::move(stages);
    settle(&config);
    const Places places(config);
    std::vector<std::int64_t> values;
    for (const Crossing& crossing : places.crossings())
      if (places.ends_in_product(crossing)) values.push_back(crossing.value);
    return values;
  };
  using Values = std::vector<std::int64_t>;
  EXPECT_EQ(streamed({{1, 1, 1}, {3, 1, 1}}), (Values{1}));
  EXPECT_EQ(streamed({{1, 1, 1}, {2, 2, 1}, {1, 1, 1}}), (Values{1, 3}));
  EXPECT_EQ(streamed({{1, 1, 2}, {3, 1, 1}}), Values{});  // what its two ranks make has to be added up first
  config.model.u_shaped = true;
  config.model.layers = 6;
  // Value 1 enters block 1, and as a skip block 4 of the last stage: it is sent twice, so it has to stay.
  EXPECT_EQ(streamed({{1, 1, 1}, {3, 1, 1}, {2, 1, 1}}), (Values{4}));
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
