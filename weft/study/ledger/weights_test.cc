// Weights come from a checkpoint cut by rows to where products want them, by reshard plans that run for real.
#include "weft/study/ledger/weights.h"

#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/study/clock.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// The whole matrix, put together from the ranks' parts.
std::vector<float> gathered(int ranks, std::int64_t k, std::int64_t n, WeightLoader::Split split, WeightLoad* done) {
  const bool rows = split == WeightLoader::Split::rows;
  const std::int64_t columns = rows ? n : n * ranks;
  std::vector<float> whole(num(k * n * ranks), 99);
  std::mutex mutex;
  World::local(ranks, [&](World& world) {
    CommonClock clock(world);
    WeightLoader loader(world, clock);
    const float* part = loader.load(k, n, split, 0.25f);
    const std::lock_guard lock(mutex);
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t row = rows ? world.rank() * k + i : i, col = rows ? j : world.rank() * n + j;
        whole[at(row * columns + col)] = part[i * n + j];
      }
    if (world.rank() == 0) *done = loader.done();
  });
  return whole;
}

TEST(WeightLoader, AMatrixIsTheSameForAnyNumberOfRanks) {
  WeightLoad done;
  const auto one = gathered(1, 12, 8, WeightLoader::Split::columns, &done);
  EXPECT_EQ(std::set<float>(one.begin(), one.end()).size(), one.size()) << "no value stands twice";
  for (const float value : one) EXPECT_LE(std::abs(value), 0.25f);
  EXPECT_EQ(gathered(2, 12, 4, WeightLoader::Split::columns, &done), one);
  EXPECT_EQ(gathered(4, 12, 2, WeightLoader::Split::columns, &done), one);
  EXPECT_EQ(gathered(4, 3, 8, WeightLoader::Split::rows, &done), one);
}

TEST(WeightLoader, OnlyWhatIsElsewhereTravels) {
  WeightLoad columns, rows;
  gathered(4, 8, 2, WeightLoader::Split::columns, &columns);
  EXPECT_EQ(columns.matrices, 1);
  EXPECT_DOUBLE_EQ(columns.bytes, 8 * 2 * 4 * 4);
  EXPECT_DOUBLE_EQ(columns.sent_bytes, columns.bytes * 3 / 4) << "a quarter is in place";
  EXPECT_GT(columns.measured_us, 0);
  EXPECT_GT(columns.predicted_us, 0);
  EXPECT_GT(columns.verify_ms, 0);
  EXPECT_FALSE(columns.strategy.empty());
  gathered(4, 2, 8, WeightLoader::Split::rows, &rows);
  EXPECT_DOUBLE_EQ(rows.sent_bytes, 0) << "rows stay where they are";
}

TEST(WeightLoader, MatricesDifferAndStayWhereTheyAre) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    WeightLoader loader(world, clock);
    const float* first = loader.load(4, 3, WeightLoader::Split::columns, 1);
    const std::vector<float> before(first, first + 12);
    const float* second = loader.load(4, 3, WeightLoader::Split::columns, 1);
    EXPECT_NE(std::vector<float>(second, second + 12), before);
    EXPECT_EQ(std::vector<float>(first, first + 12), before) << "it lives as long as the loader";
    EXPECT_EQ(loader.done().matrices, 2);
    EXPECT_DOUBLE_EQ(loader.done().bytes, 2 * 4 * 3 * 2 * 4);
  });
}

}  // namespace
}  // namespace weft
