// Sums that do not block: the same as the obvious sum in rank order, bit for bit, in every shape that can be split.
#include "weft/world/split_sum.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/mesh/box.h"
#include "weft/world/style.h"
#include "weft/world/world.h"

namespace weft {
namespace {

float value_of(int rank, int sum, std::int64_t i) {
  return static_cast<float>((i * 37 + rank * 101 + sum * 7) % 1000) / 7.0f;
}

std::vector<float> made_by(int rank, int sum, std::int64_t elements) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < elements; ++i) out.push_back(value_of(rank, sum, i));
  return out;
}

float sum_of(int ranks, int sum, std::int64_t i) {
  float out = value_of(0, sum, i);
  for (int rank = 1; rank < ranks; ++rank) out += value_of(rank, sum, i);
  return out;
}

// Three sums under way at once, several times over, as panels have them.
void check_sums(World& world, const Space& space, std::int64_t rows, std::int64_t cols) {
  std::vector<std::unique_ptr<SplitSum>> sums;
  for (int s = 0; s < 3; ++s) sums.push_back(std::make_unique<SplitSum>(world, space, rows, cols));
  const bool all = space.kind == SpaceKind::all_reduce;
  const std::int64_t begin = all ? 0 : cut(rows, world.size(), world.rank());
  const std::int64_t end = all ? rows : cut(rows, world.size(), world.rank() + 1);
  for (int run = 0; run < 5; ++run) {
    std::vector<std::vector<float>> made;
    for (int s = 0; s < 3; ++s) {
      made.push_back(made_by(world.rank(), 3 * run + s, rows * cols));
      sums[at(s)]->start(made.back().data());
      if (s > 0 && sums[at(s - 1)]->sends_sums()) sums[at(s - 1)]->add_up();
      for (int before = 0; before < s; ++before) sums[at(before)]->poll();
    }
    for (auto& sum : sums)
      if (!sum->added()) sum->add_up();
    for (int s = 0; s < 3; ++s) {
      const Matrix y = sums[at(s)]->output();
      ASSERT_EQ(y.rows, end - begin);
      ASSERT_EQ(y.cols, cols);
      for (std::int64_t i = 0; i < y.rows * y.cols; ++i)
        ASSERT_EQ(y.data[i], sum_of(world.size(), 3 * run + s, begin * cols + i)) << "sum " << s << " of run " << run;
    }
  }
}

TEST(SplitSum, IsTheSumInRankOrder) {
  for (const int ranks : {1, 2, 3, 4})
    World::local(ranks, [](World& world) {
      const Mesh mesh = world.mesh({{"tp", world.size()}});
      check_sums(world, all_reduce(mesh, "tp"), 2 * world.size(), 17);
      check_sums(world, reduce_scatter(mesh, "tp"), 2 * world.size(), 17);
      check_sums(world, reduce_scatter(mesh, "tp"), 2 * world.size() + 1, 5);  // parts of different sizes
    });
}

TEST(SplitSum, CountsWhatItSends) {
  World::local(2, [](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    const std::vector<float> made(8 * 16, 1.0f);
    for (const bool all : {false, true}) {
      SplitSum sum(world, all ? all_reduce(mesh, "tp") : reduce_scatter(mesh, "tp"), 8, 16);
      sum.start(made.data());
      sum.add_up();
      sum.output();
      EXPECT_EQ(sum.bytes_sent(), (all ? 2 : 1) * 4 * 16 * 4) << "half of the rows, and sums of the other half";
      EXPECT_GT(sum.seconds(world.cluster(2)), 0);
    }
  });
}

TEST(SplitSum, SaysWhatCanBeSplit) {
  EXPECT_TRUE(SplitSum::possible(SpaceKind::reduce_scatter, 5, 4));
  EXPECT_FALSE(SplitSum::possible(SpaceKind::reduce_scatter, 3, 4)) << "a rank without rows";
  EXPECT_TRUE(SplitSum::possible(SpaceKind::all_reduce, 8, 4));
  EXPECT_FALSE(SplitSum::possible(SpaceKind::all_reduce, 9, 4)) << "an all_gather takes equal parts";
  EXPECT_FALSE(SplitSum::possible(SpaceKind::all_gather, 8, 4));
}

TEST(Style, HasOneNameAndKnowsTheOldOnes) {
  for (const Style style : kStyles) EXPECT_EQ(parse_style(to_string(style)), style);
  EXPECT_EQ(parse_style("decomposed"), Style::panels);
  EXPECT_EQ(parse_style("alone"), Style::compute);
  EXPECT_NE(refusal([] { parse_style("by_hand"); }).find("use one of sequential, panels, fused, compute"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
