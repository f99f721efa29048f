#include "weft/exec/cpu/lane_card.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/small_plans_test.h"

namespace weft {
namespace {

// Every rank's segment in this process.
struct Segments {
  explicit Segments(const Plan& plan) : expander(plan) {
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      memory.layouts.push_back(layout_of(plan, expander, rank));
      bytes.emplace_back(memory.layouts.back().bytes);
      memory.base.push_back(bytes.back().data());
    }
  }
  Expander expander;
  std::vector<std::vector<std::byte>> bytes;
  Memory memory;
};

// The address of an element as the layout has it, without a card.
const std::byte* address(const Memory& memory, const Piece& piece, const Box& part, std::uint32_t run) {
  const BufferLayout& layout = memory.layouts[piece.rank].buffers[piece.buffer];
  return memory.copy(piece.rank, piece.buffer, run) + row_bytes(layout.dtype, layout.element(part.lo));
}

TEST(LaneCard, EveryPlaceIsWhereTheLayoutHasIt) {
  for (const Plan& plan : testing_plans::all_plans(3)) {
    const Segments all(plan);
    const Program program = all.expander.program(2);
    Bindings bindings;
    bindings.buffers.resize(plan.buffers.size());
    std::vector<Place> places;
    places.reserve(most_pieces(program));
    for (const Action& action : program.actions)
      for (std::int64_t lane = 0; lane < action.lanes; ++lane) {
        const LaneCard card = card_of(all.memory, program, action, lane, {}, &places);
        if (card.rows == 0) continue;
        ASSERT_EQ(card.targets.size(), program.targets(action).size());
        for (std::size_t i = 0; i < card.targets.size(); ++i) {
          const Piece& target = program.targets(action)[i];
          const Box part = lane_box(target.box, action.tile, lane);
          for (const std::uint32_t run : {0u, 1u, 4294967295u})
            EXPECT_EQ(static_cast<const void*>(card.targets[i].strip(bindings, run).data),
                      address(all.memory, target, part, run))
                << plan.name;
        }
      }
  }
}

TEST(LaneCard, AnOutputLiesWhereTheRunHasMemoryForIt) {
  const Plan plan = testing::pair_plan();
  const int y = plan.buffer("y");
  const Segments all(plan);
  const Program program = all.expander.program(1);
  std::vector<float> given(4 * 8);
  Bindings bindings;
  bindings.buffers.resize(plan.buffers.size());
  bindings.buffers[at(y)] = given.data();
  const LaneCards kept(all.memory, program);
  const Action& own = program.actions[1];
  for (std::int64_t lane = 0; lane < own.lanes; ++lane) {
    const Place& target = kept.at(1, lane).targets[0];
    ASSERT_EQ(target.buffer, y);
    const Box part = lane_box(program.targets(own)[0].box, own.tile, lane);
    EXPECT_EQ(target.strip(bindings, 3).data, given.data() + part.lo[0] * 8 + part.lo[1]);
    const Place& source = kept.at(1, lane).sources[0];
    EXPECT_EQ(source.strip(bindings, 0).data, source.base + source.corner) << "the inbox is the op's own";
  }
}

TEST(LaneCard, CardsKeptForAllLanesAreThoseMadeOneByOne) {
  for (const Plan& plan : testing_plans::all_plans(2)) {
    const Segments all(plan);
    const Program program = all.expander.program(1);
    const LaneCards kept(all.memory, program);
    ASSERT_FALSE(kept.empty()) << plan.name;
    std::vector<Place> places;
    places.reserve(most_pieces(program));
    for (std::size_t a = 0; a < program.actions.size(); ++a)
      for (std::int64_t lane = 0; lane < program.actions[a].lanes; ++lane) {
        const LaneCard fresh = card_of(all.memory, program, program.actions[a], lane, {}, &places);
        const LaneCard& card = kept.at(a, lane);
        EXPECT_EQ(card.box, fresh.box) << plan.name;
        EXPECT_EQ(card.row_dim, fresh.row_dim) << plan.name;
        ASSERT_EQ(card.sources.size(), fresh.sources.size()) << plan.name;
        for (std::size_t i = 0; i < card.sources.size(); ++i) {
          EXPECT_EQ(card.sources[i].base, fresh.sources[i].base) << plan.name;
          EXPECT_EQ(card.sources[i].corner, fresh.sources[i].corner) << plan.name;
        }
      }
  }
}

TEST(LaneCard, RowsBeyondTheCountAreNotOnTheCard) {
  Plan plan = testing::pair_plan();
  plan.rules[0].limit = Limit::rows;
  const Segments all(plan);
  const Program program = all.expander.program(1);  // sends rows 0 to 3, in tiles of 2
  std::vector<Place> places;
  places.reserve(most_pieces(program));
  const Action& send = program.actions[0];
  const auto rows = [&](std::int64_t count, std::int64_t lane) {
    return card_of(all.memory, program, send, lane, {.rows = count, .peers = {}}, &places).rows;
  };
  EXPECT_EQ(rows(-1, 2), 2);
  EXPECT_EQ(rows(3, 0), 2);
  EXPECT_EQ(rows(3, 2), 1);
  EXPECT_EQ(rows(2, 2), 0);
  EXPECT_TRUE(card_of(all.memory, program, send, 2, {.rows = 2, .peers = {}}, &places).targets.empty());
}

TEST(LaneCard, APlanOfManyLanesKeepsNoCards) {
  const Producer wide = testing_plans::small_gemm(400, 400, 2, 2);  // 5,000 tiles
  const Plan plan = build_keep(wide, 2);
  const Segments all(plan);
  EXPECT_TRUE(LaneCards(all.memory, all.expander.program(0)).empty());
}

}  // namespace
}  // namespace weft
