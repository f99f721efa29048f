#include "weft/exec/layout.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/exec/bindings.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/small_plans_test.h"

namespace weft {
namespace {

using Corner = std::array<std::int64_t, kMaxDims>;

Layout layout_of(const Plan& plan, int rank) { return weft::layout_of(plan, Expander(plan), rank); }

// Every element of a 2-d buffer, by its offset.
std::set<std::int64_t> offsets_of(const BufferLayout& buffer) {
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < buffer.shape[0]; ++i)
    for (std::int64_t j = 0; j < buffer.shape[1]; ++j) seen.insert(buffer.element({i, j}));
  return seen;
}

TEST(Layout, NoTwoElementsOfABufferShareAPlaceAndNoneLiesOutside) {
  for (const Plan& plan : testing_plans::all_plans(3))
    for (const BufferLayout& buffer : layout_of(plan, 1).buffers) {
      if (buffer.dims != 2 || buffer.shape[0] * buffer.shape[1] == 0) continue;
      const std::set<std::int64_t> seen = offsets_of(buffer);
      EXPECT_EQ(std::ssize(seen), buffer.shape[0] * buffer.shape[1]) << plan.name;
      EXPECT_GE(*seen.begin(), 0) << plan.name;
      EXPECT_LE(num(row_bytes(buffer.dtype, *seen.rbegin() + 1)), buffer.copy_bytes) << plan.name;
    }
}

TEST(Layout, BuffersAndCountersShareNoPage) {
  for (const Plan& plan : testing_plans::all_plans(4)) {
    const Layout layout = layout_of(plan, 2);
    std::size_t end = 0;
    for (const BufferLayout& buffer : layout.buffers) {
      if (buffer.role == Role::input) continue;  // the caller's memory
      EXPECT_EQ(buffer.offset % 4096, 0u) << plan.name;
      EXPECT_GE(buffer.offset, end) << plan.name;
      end = buffer.offset + buffer.copy_bytes * num(buffer.depth);
    }
    EXPECT_GE(layout.counters, end) << plan.name;
    EXPECT_GE(layout.bytes, layout.counters + 4 * num(layout.num_counters)) << plan.name;
  }
}

TEST(Layout, ATileOfAPackedBufferIsContiguous) {
  const Layout layout = layout_of(testing::pair_plan(), 0);
  const BufferLayout& inbox = layout.buffers[0];  // 4 x 8 in tiles of 2 x 4
  ASSERT_EQ(inbox.row_stride(), 4);
  for (std::int64_t tile = 0; tile < 4; ++tile) {
    const Corner first{tile / 2 * 2, tile % 2 * 4};
    for (std::int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(inbox.element({first[0] + i / 4, first[1] + i % 4}), inbox.element(first) + i) << "tile " << tile;
  }
}

TEST(Layout, EveryBlockOfAPackedBufferBeginsANewGridOfTiles) {
  Plan plan = testing::pair_plan();
  plan.buffers[0].packing.block_rows = 3;  // tiles of 2 rows: the second of a block is half empty
  const BufferLayout inbox = layout_of(plan, 0).buffers[0];
  EXPECT_EQ(inbox.block_elements, 2 * 2 * 8);
  EXPECT_EQ(inbox.element({3, 0}), inbox.block_elements);
  EXPECT_EQ(offsets_of(inbox).size(), 32u);
}

TEST(Layout, WhatCannotBeLaidOutIsRefused) {
  Plan plan = testing::pair_plan();
  plan.buffers[0].packing.block_rows = 0;
  EXPECT_THROW(layout_of(plan, 0), Error);
  plan = testing::pair_plan();
  plan.buffers[1].dtype = Dtype::int8;  // rows of y are not whole blocks of one scale
  EXPECT_THROW(layout_of(plan, 0), Error);
  plan = testing::pair_plan();
  plan.buffers[1].shape = {testing::e("1099511627776"), testing::e("n")};
  EXPECT_THROW(layout_of(plan, 0), Error);
}

TEST(Layout, StripsCoverABoxOnceWhateverTheDimensionOfItsRows) {
  const Box box{{1, 3}, {2, 5}, {0, 4}, {3, 8}};
  for (int row_dim = 0; row_dim < 3; ++row_dim) {
    std::set<Corner> corners;
    std::int64_t elements = 0;
    for_each_strip(box, row_dim, [&](std::int64_t rows, std::int64_t cols, const Corner& at) {
      EXPECT_TRUE(corners.insert(corner(box, at)).second);
      elements += rows * cols;
    });
    EXPECT_EQ(elements, box.volume()) << "rows from dimension " << row_dim;
  }
}

TEST(Layout, CountsShortenABoxButNeverBelowNothingOrBeyondIt) {
  Action action;
  action.box = Box{{8, 16}, {0, 4}};
  EXPECT_EQ(rows_that_count(action, {.rows = 3, .peers = {}}), 8);
  action.limit = Limit::rows;
  const std::vector<std::pair<std::int64_t, std::int64_t>> cases{{-1, 8}, {0, 0}, {8, 0}, {11, 3}, {16, 8}, {99, 8}};
  for (const auto& [rows, expected] : cases)
    EXPECT_EQ(rows_that_count(action, {.rows = rows, .peers = {}}), expected) << rows;
  action.limit = Limit::peer;
  action.limit_peer = 1;
  EXPECT_EQ(rows_that_count(action, {}), 8);
  const std::vector<std::int64_t> peers{2, 5};
  EXPECT_EQ(rows_that_count(action, {.rows = -1, .peers = peers}), 5);
}

}  // namespace
}  // namespace weft
