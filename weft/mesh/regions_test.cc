#include "weft/mesh/regions.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr int kSide = 7;
using Bitmap = std::bitset<kSide * kSide * kSide>;

// Boxes of `dims` dimensions within kSide; some are empty.
Box random_box(std::mt19937& random, int dims) {
  Box box;
  box.dims = dims;
  for (int d = 0; d < dims; ++d) {
    box.lo[d] = static_cast<std::int64_t>(random() % kSide);
    box.hi[d] = box.lo[d] + static_cast<std::int64_t>(random() % (kSide + 1 - static_cast<unsigned>(box.lo[d])));
  }
  return box;
}

Bitmap bitmap(const Box& box) {
  std::array<std::int64_t, 3> lo{}, hi{1, 1, 1};
  for (int d = 0; d < box.dims; ++d) lo[d] = box.lo[d], hi[d] = box.hi[d];
  Bitmap bits;
  for (std::int64_t i = lo[0]; i < hi[0]; ++i)
    for (std::int64_t j = lo[1]; j < hi[1]; ++j)
      for (std::int64_t k = lo[2]; k < hi[2]; ++k) bits.set(num((i * kSide + j) * kSide + k));
  return bits;
}

std::vector<Box> random_boxes(std::mt19937& random, int dims, unsigned most) {
  std::vector<Box> boxes(random() % (most + 1));
  for (Box& box : boxes) box = random_box(random, dims);
  return boxes;
}

std::vector<Box> grid(int rows, int columns, int tile) {
  std::vector<Box> boxes;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) boxes.push_back(Box{{i * tile, (i + 1) * tile}, {j * tile, (j + 1) * tile}});
  return boxes;
}

TEST(Box, IntersectOverlapContainAgreeWithABitmap) {
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    const int dims = static_cast<int>(random() % 4);
    const Box a = random_box(random, dims), b = random_box(random, dims);
    const Bitmap x = bitmap(a), y = bitmap(b);
    EXPECT_EQ(bitmap(intersect(a, b)), x & y);
    EXPECT_EQ(overlaps(a, b), (x & y).any());
    EXPECT_EQ(contains(a, b), (y & ~x).none());
    EXPECT_EQ(a.empty(), x.none());
    EXPECT_EQ(num(a.volume()), x.count());
  }
}

TEST(Regions, SubtractLeavesDisjointBoxesOfTheDifference) {
  std::mt19937 random(2);
  for (int round = 0; round < 5000; ++round) {
    const int dims = static_cast<int>(random() % 4);
    const Box a = random_box(random, dims), b = random_box(random, dims);
    const std::vector<Box> pieces = subtract(a, b);
    EXPECT_LE(pieces.size(), std::max<std::size_t>(1, 2 * num(dims)));
    Bitmap sum;
    for (const Box& piece : pieces) {
      EXPECT_FALSE(piece.empty());
      EXPECT_TRUE((sum & bitmap(piece)).none());
      sum |= bitmap(piece);
    }
    EXPECT_EQ(sum, bitmap(a) & ~bitmap(b));
  }
}

TEST(Regions, CoversAndFirstGapAgreeWithABitmap) {
  std::mt19937 random(3);
  int num_covered = 0;
  for (int round = 0; round < 5000; ++round) {
    const int dims = static_cast<int>(random() % 4);
    std::vector<Box> boxes = random_boxes(random, dims, 12);
    const Box box = random_box(random, dims);
    if (round % 2)  // half the time a cover of the box, of which one may then be lost
      for (const Box& piece : subtract(box, random_box(random, dims))) boxes.push_back(piece);
    Bitmap sum;
    for (const Box& each : boxes) sum |= bitmap(each);
    const bool covered = (bitmap(box) & ~sum).none();
    num_covered += covered && !box.empty();
    EXPECT_EQ(covers(boxes, box), covered);
    const auto gap = first_gap(boxes, box);
    EXPECT_EQ(gap.has_value(), !covered);
    if (!gap) continue;
    EXPECT_FALSE(gap->empty());
    EXPECT_TRUE(contains(box, *gap));
    EXPECT_TRUE((bitmap(*gap) & sum).none());
  }
  EXPECT_GT(num_covered, 100);
}

TEST(Regions, FirstOverlapAgreesWithAllPairs) {
  std::mt19937 random(4);
  std::array<int, 2> seen{};
  for (int round = 0; round < 5000; ++round) {
    const int dims = static_cast<int>(random() % 4);
    std::vector<Box> boxes;
    if (round % 2) {
      boxes = random_boxes(random, dims, 12);
    } else {  // disjoint pieces of one box, at times with a stranger
      boxes.push_back(random_box(random, dims));
      for (int cuts = 0; cuts < 6; ++cuts) {
        const Box knife = random_box(random, dims);
        std::vector<Box> next;
        for (const Box& box : boxes) {
          for (const Box& piece : subtract(box, knife)) next.push_back(piece);
          if (overlaps(box, knife)) next.push_back(intersect(box, knife));
        }
        boxes = next;
      }
      std::shuffle(boxes.begin(), boxes.end(), random);
      if (random() % 2) boxes.push_back(random_box(random, dims));
    }
    bool apart = true;
    for (std::size_t i = 0; i < boxes.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) apart = apart && !overlaps(boxes[i], boxes[j]);
    ++seen[apart];
    const auto pair = first_overlap(boxes);
    EXPECT_EQ(pair.has_value(), !apart);
    EXPECT_EQ(disjoint(boxes), apart);
    if (!pair) continue;
    EXPECT_LT(pair->first, pair->second);
    EXPECT_TRUE(overlaps(boxes[at(pair->first)], boxes[at(pair->second)]));
  }
  EXPECT_GT(seen[0], 500);
  EXPECT_GT(seen[1], 500);
}

TEST(Regions, FindsTheOneBadTileOfALargeGrid) {
  std::vector<Box> boxes = grid(200, 300, 4);
  std::shuffle(boxes.begin(), boxes.end(), std::mt19937(5));
  const Box all{{0, 800}, {0, 1200}};
  EXPECT_TRUE(disjoint(boxes));
  EXPECT_TRUE(covers(boxes, all));

  const Box lost = boxes.back();
  boxes.pop_back();
  ASSERT_TRUE(first_gap(boxes, all));
  EXPECT_EQ(*first_gap(boxes, all), lost);

  boxes.push_back(Box{{lost.lo[0], lost.hi[0]}, {lost.lo[1], lost.hi[1] + (lost.lo[1] ? 0 : 1)}});
  boxes.push_back(boxes.front());
  ASSERT_TRUE(first_overlap(boxes));
}

TEST(Regions, StripsByTheThousandAreQuick) {
  std::vector<Box> strips;
  for (int i = 0; i < 100000; ++i) strips.push_back(Box{{i * 3, i * 3 + 3}, {0, 64}});
  std::shuffle(strips.begin(), strips.end(), std::mt19937(6));
  EXPECT_TRUE(disjoint(strips));
  EXPECT_TRUE(covers(strips, Box{{0, 300000}, {0, 64}}));
  EXPECT_EQ(first_gap(strips, Box{{0, 300001}, {0, 64}}), (Box{{300000, 300001}, {0, 64}}));
}

TEST(BoxIndex, AgreesWithLookingAtEveryBox) {
  std::mt19937 random(7);
  std::vector<int> found, expected;
  for (int round = 0; round < 500; ++round) {
    const int dims = static_cast<int>(random() % 4);
    std::vector<Box> boxes = random_boxes(random, dims, 200);
    if (round % 4 == 0 && dims == 2) boxes = grid(7, 5, 1);
    std::vector<int> payloads;
    for (std::size_t i = 0; i < boxes.size(); ++i) payloads.push_back(static_cast<int>(random() % 1000));
    const BoxIndex index(boxes, payloads);
    EXPECT_EQ(index.is_disjoint(), disjoint(boxes));
    for (int ask = 0; ask < 20; ++ask) {
      const bool known = ask % 2 && !boxes.empty();
      const Box query = known ? boxes[random() % boxes.size()] : random_box(random, dims);
      found.clear();
      expected.clear();
      index.overlapping(query, found);
      for (std::size_t i = 0; i < boxes.size(); ++i)
        if (overlaps(boxes[i], query)) expected.push_back(payloads[i]);
      std::sort(found.begin(), found.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(BoxIndex, AppendsAndKeepsWhatIsThere) {
  const BoxIndex index(std::vector<Box>{Box{{0, 4}}, Box{{4, 8}}});
  std::vector<int> found{42};
  index.overlapping(Box{{3, 5}}, found);
  EXPECT_EQ(found, (std::vector<int>{42, 0, 1}));
}

TEST(BoxIndex, OfNothingFindsNothing) {
  std::vector<int> found;
  BoxIndex().overlapping(Box{{0, 4}}, found);
  BoxIndex(std::vector<Box>{Box{{2, 2}}}).overlapping(Box{{0, 4}}, found);
  EXPECT_TRUE(found.empty());
}

TEST(BoxIndex, RefusesBoxesOfDifferentDimensions) {
  EXPECT_THROW(BoxIndex(std::vector<Box>{Box{{0, 1}}, Box{{0, 1}, {0, 1}}}), Error);
  EXPECT_THROW(BoxIndex(std::vector<Box>{Box{{0, 1}}}, std::vector<int>{1, 2}), Error);
}

}  // namespace
}  // namespace weft
