// The known schedules are what their definitions say, for any sizes.
#include "weft/schedule/build.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/schedule/check.h"
#include "weft/schedule/random_test.h"
#include "weft/schedule/save.h"

namespace weft::pipeline {
namespace {

std::string line(const Schedule& schedule, int stage) {
  std::string out;
  for (const WorkItem& item : schedule.stages[at(stage)]) out += (out.empty() ? "" : " ") + to_text(item);
  return out;
}

TEST(Build, EveryKindIsProvedForRandomSizes) {
  RandomPipeline random(1);
  for (int round = 0; round < 2000; ++round) {
    const BuildOptions o = random.options(9, 20);
    const Schedule schedule = build(o);
    const Verdict verdict = check(schedule);
    ASSERT_TRUE(verdict.ok()) << to_string(o.kind) << " " << o.stages << " x " << o.micro_batches << ": "
                              << verdict.problems.front();
    EXPECT_LE(verdict.peak(), o.memory > 0 ? o.memory : num_items(schedule)) << to_string(o.kind);
    const std::int64_t places = std::int64_t{o.stages} * schedule.num_chunks * o.micro_batches;
    const bool split = o.backward == Backward::split || o.kind == Kind::zero_bubble;
    EXPECT_EQ(num_items(schedule), places * (2 + split + (o.recompute == Recompute::yes)));
  }
}

TEST(OneFOneB, HoldsOneActivationPerStageBehindIt) {
  for (const int n : {1, 2, 5, 8})
    for (const int m : {1, 3, 8, 40}) {
      const Verdict verdict = check(build({.kind = Kind::one_f_one_b, .stages = n, .micro_batches = m}));
      for (int i = 0; i < n; ++i) EXPECT_EQ(verdict.peak_activations[at(i)], std::min(m, n - i));
    }
}

TEST(EagerOneFOneB, HoldsAtMostTwiceTheActivations) {
  for (const int n : {1, 2, 5, 8})
    for (const int m : {1, 3, 8, 40}) {
      const Verdict verdict = check(build({.kind = Kind::eager_1f1b, .stages = n, .micro_batches = m}));
      for (int i = 0; i < n; ++i) EXPECT_EQ(verdict.peak_activations[at(i)], std::min(m, 2 * (n - i) - 1));
    }
}

TEST(Build, PeaksOfTheOtherKinds) {
  const auto peaks = [](Kind kind, int memory) {
    return check(build({.kind = kind, .stages = 4, .micro_batches = 16, .memory = memory})).peak_activations;
  };
  EXPECT_EQ(peaks(Kind::gpipe, 0), (std::vector<double>{16, 16, 16, 16}));
  EXPECT_EQ(peaks(Kind::gpipe, 5), (std::vector<double>{5, 5, 5, 5}));
  EXPECT_EQ(peaks(Kind::zero_bubble, 0), (std::vector<double>{4, 4, 4, 4}));
  EXPECT_EQ(peaks(Kind::eager_1f1b, 4), (std::vector<double>{4, 3, 2, 1}));  // as 1f1b
  EXPECT_EQ(peaks(Kind::eager_1f1b, 6), (std::vector<double>{6, 5, 3, 1}));
  EXPECT_EQ(peaks(Kind::one_f_one_b, 2), (std::vector<double>{2, 2, 2, 1}));
  EXPECT_EQ(peaks(Kind::interleaved_1f1b, 0), (std::vector<double>{5.5, 4.5, 3.5, 2.5}));
}

TEST(Build, OrdersAreThoseOfTheDefinitions) {
  EXPECT_EQ(line(build({.kind = Kind::gpipe, .stages = 2, .micro_batches = 3}), 1), "f0 f1 f2 b0 b1 b2");
  EXPECT_EQ(line(build({.kind = Kind::gpipe, .stages = 2, .micro_batches = 3, .memory = 2}), 0), "f0 f1 b0 b1 f2 b2");
  const Schedule plain = build({.kind = Kind::one_f_one_b, .stages = 3, .micro_batches = 4});
  EXPECT_EQ(line(plain, 0), "f0 f1 f2 b0 f3 b1 b2 b3");
  EXPECT_EQ(line(plain, 2), "f0 b0 f1 b1 f2 b2 f3 b3");
  EXPECT_EQ(line(build({.kind = Kind::eager_1f1b, .stages = 3, .micro_batches = 6}), 1),
            "f0 f1 f2 b0 f3 b1 f4 b2 f5 b3 b4 b5");
  EXPECT_EQ(line(build({.kind = Kind::zero_bubble, .stages = 3, .micro_batches = 4}), 2),
            "f0 i0 f1 i1 f2 i2 w0 f3 i3 w1 w2 w3");
  EXPECT_EQ(line(build({.kind = Kind::interleaved_1f1b, .stages = 2, .micro_batches = 2}), 1),
            "f0 f1 f0.1 b0.1 f1.1 b1.1 b0 b1");
  EXPECT_EQ(line(build({.kind = Kind::one_f_one_b,
                        .stages = 1,
                        .micro_batches = 2,
                        .backward = Backward::split,
                        .recompute = Recompute::yes}),
                 0),
            "f0 r0 i0 w0 f1 r1 i1 w1");
}

TEST(Build, RecomputationHoldsOneWholeActivation) {
  const Verdict verdict =
      check(build({.kind = Kind::eager_1f1b, .stages = 4, .micro_batches = 9, .recompute = Recompute::yes}));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict.peak_activations, (std::vector<double>{7, 5, 3, 1}));
  EXPECT_EQ(verdict.peak_recomputed, (std::vector<double>{1, 1, 1, 1}));
}

TEST(Build, RefusalsNameTheValueAndTheRemedy) {
  const auto refused = [](const BuildOptions& options) { return refusal([&] { build(options); }); };
  EXPECT_EQ(refused({.kind = Kind::interleaved_1f1b, .stages = 4, .micro_batches = 10}),
            "interleaved_1f1b takes 4 micro-batches at a time, one per stage: 10 is no multiple; use 8 or 12");
  EXPECT_EQ(refused({.kind = Kind::interleaved_1f1b, .stages = 4, .micro_batches = 3}),
            "interleaved_1f1b takes 4 micro-batches at a time, one per stage: 3 is no multiple; use 4");
  EXPECT_NE(
      refused({.kind = Kind::interleaved_1f1b, .stages = 4, .micro_batches = 16, .memory = 5}).find("a memory of 6"),
      std::string::npos);
  EXPECT_NE(refused({.stages = 0}).find("0 stages; use 1 to"), std::string::npos);
  EXPECT_NE(refused({.micro_batches = 0}).find("0 micro-batches; use 1 to"), std::string::npos);
  EXPECT_NE(refused({.kind = Kind::interleaved_1f1b, .chunks = 0}).find("0 chunks"), std::string::npos);
  EXPECT_NE(refused({.memory = -1}).find("memory of -1"), std::string::npos);
  EXPECT_NE(refused({.stages = 4096, .micro_batches = 1 << 20}).find("use fewer"), std::string::npos);
  EXPECT_NE(refusal([] { parse_kind("2f2b"); }).find("use one of gpipe, 1f1b, eager_1f1b"), std::string::npos);
  EXPECT_EQ(parse_kind("eager-1f1b"), Kind::eager_1f1b);
}

}  // namespace
}  // namespace weft::pipeline
