#include "weft/mesh/box.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Box, CutsIntoPartsThatDifferByAtMostOne) {
  for (std::int64_t total = 0; total < 30; ++total) {
    for (std::int64_t parts = 1; parts < 12; ++parts) {
      EXPECT_EQ(cut(total, parts, 0), 0);
      EXPECT_EQ(cut(total, parts, parts), total);
      for (std::int64_t i = 0; i < parts; ++i) {
        const std::int64_t size = cut(total, parts, i + 1) - cut(total, parts, i);
        EXPECT_EQ(size, total / parts + (i < total % parts));
      }
    }
  }
}

TEST(Box, PrintsItsSpans) {
  EXPECT_EQ(to_string(Box{{0, 4}, {2, 8}}), "[0:4, 2:8]");
  EXPECT_EQ(to_string(Box{}), "[]");
}

TEST(Box, ComparesOnlyTheDimensionsItHas) {
  Box a{{0, 4}};
  a.hi[3] = 7;
  EXPECT_EQ(a, (Box{{0, 4}}));
  EXPECT_FALSE(a == (Box{{0, 4}, {0, 1}}));
}

TEST(Box, SameShapeIgnoresWhereItLies) {
  EXPECT_TRUE(same_shape(Box{{0, 4}, {1, 2}}, Box{{6, 10}, {0, 1}}));
  EXPECT_FALSE(same_shape(Box{{0, 4}}, Box{{0, 5}}));
}

}  // namespace
}  // namespace weft
