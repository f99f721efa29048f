#include "weft/llm/spd/search.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr BlockMode kInt8{false, BlockWire::int8}, kDrop{true, BlockWire::f32}, kBoth{true, BlockWire::int8};

// Twelve blocks whose losses add up, but not as expected: the true ones are off by up to a third.
struct Problem {
  SearchInput input;
  std::vector<std::vector<double>> losses;  // (blocks, int8 | drop | both)
  double factor = 1;                        // of text that was not searched on

  explicit Problem(unsigned seed, std::size_t blocks = 6) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (std::size_t b = 0; b < blocks; ++b) {
      const double int8 = 0.0002 * uniform(random), drop = 0.02 * std::pow(uniform(random), 3);
      losses.push_back({int8, drop, drop + int8 / 2});
      auto& choices = input.blocks.emplace_back();
      const auto expected = [&](double loss) { return loss * (2.0 / 3 + 2.0 / 3 * uniform(random)); };
      choices = {{kInt8, 60e-6, expected(int8)}, {kDrop, 50e-6, expected(drop)}, {kBoth, 80e-6, expected(drop + int8)}};
    }
  }

  double loss(std::span<const BlockMode> modes) const {
    double sum = 0;
    for (std::size_t b = 0; b < modes.size(); ++b)
      for (std::size_t c = 0; c < 3; ++c)
        if (input.blocks[b][c].mode == modes[b]) sum += losses[b][c];
    return sum * factor;
  }

  double saved(std::span<const BlockMode> modes) const {
    double sum = 0;
    for (std::size_t b = 0; b < modes.size(); ++b)
      for (const ModeChoice& choice : input.blocks[b])
        if (choice.mode == modes[b]) sum += choice.saved_s;
    return sum;
  }

  double best_of_all() const {  // 4^blocks choices
    double best = 0;
    const std::size_t blocks = losses.size();
    for (std::size_t code = 0; code < std::size_t{1} << (2 * blocks); ++code) {
      std::vector<BlockMode> modes(blocks);
      for (std::size_t b = 0; b < blocks; ++b)
        if (const std::size_t c = code >> (2 * b) & 3; c > 0) modes[b] = input.blocks[b][c - 1].mode;
      if (loss(modes) <= input.max_loss) best = std::max(best, saved(modes));
    }
    return best;
  }
};

TEST(Search, IsUnderTheBoundAndNearTheBestOfAllChoices) {
  double share = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Problem problem(seed);
    const SearchResult found = search_modes(problem.input, [&](auto modes) { return problem.loss(modes); });
    EXPECT_LE(problem.loss(found.modes), problem.input.max_loss);
    EXPECT_NEAR(problem.loss(found.modes), found.loss, 1e-12);
    EXPECT_NEAR(problem.saved(found.modes), found.saved_s, 1e-12);
    EXPECT_LE(found.measurements, problem.input.most_measurements);
    share += found.saved_s / problem.best_of_all() / 20;
  }
  EXPECT_GT(share, 0.97);
}

TEST(Search, TakesAllThatIsFreeAndNothingThatIsTooDear) {
  Problem problem(1);
  const SearchResult all = search_modes(problem.input, [](auto) { return 0.0; });
  for (const BlockMode mode : all.modes) EXPECT_EQ(mode, kBoth);
  const SearchResult none = search_modes(problem.input, [](auto) { return 1.0; });
  for (const BlockMode mode : none.modes) EXPECT_EQ(mode, BlockMode{});
  EXPECT_EQ(none.trail.size(), 1u);
}

TEST(Search, AModeThatSavesNothingIsNotTaken) {
  SearchInput input;
  input.blocks = {{{kInt8, -1e-6, 0}, {kDrop, 5e-6, 0.001}}};
  const SearchResult found = search_modes(input, [](auto) { return 0.001; });
  EXPECT_EQ(found.modes[0], kDrop);
}

TEST(Search, TheBudgetIsKept) {
  Problem problem(3, 8);
  problem.input.most_measurements = 3;
  int asked = 0;
  const SearchResult found = search_modes(problem.input, [&](auto modes) { return ++asked, problem.loss(modes); });
  EXPECT_EQ(asked, 3);
  EXPECT_LE(problem.loss(found.modes), problem.input.max_loss);
}

TEST(Search, HarderTextTakesMovesBack) {
  Problem problem(4, 8);
  const SearchResult found = search_modes(problem.input, [&](auto modes) { return problem.loss(modes); });
  problem.factor = 1.5;
  const Confirmed confirmed =
      confirm(found.trail, problem.input.max_loss, [&](auto modes) { return problem.loss(modes); });
  EXPECT_LT(confirmed.at + 1, found.trail.size());
  EXPECT_LE(problem.loss(found.trail[confirmed.at]), problem.input.max_loss);
  EXPECT_GT(problem.loss(found.trail[confirmed.at + 1]), problem.input.max_loss);
  problem.factor = 1;
  const Confirmed same = confirm(found.trail, problem.input.max_loss, [&](auto modes) { return problem.loss(modes); });
  EXPECT_EQ(same.at + 1, found.trail.size());
  EXPECT_EQ(same.measurements, 1);
}

}  // namespace
}  // namespace weft
