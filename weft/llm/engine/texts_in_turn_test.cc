#include "weft/llm/engine/texts_in_turn.h"

#include <random>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(TextsInTurn, TheFirstStreamsAndTheOthersWaitForTheirTurn) {
  std::string seen;
  TextsInTurn texts(3, [&](std::size_t, std::string_view text) { seen += text; });
  texts.add(0, "a");
  texts.add(1, "1");
  EXPECT_EQ(seen, "a");
  texts.add(2, "x");
  texts.end(2);
  EXPECT_EQ(seen, "a");
  texts.add(0, "b");
  texts.end(0);
  EXPECT_EQ(seen, "ab1") << "the second has its turn, and what waited";
  texts.add(1, "2");
  EXPECT_EQ(seen, "ab12");
  texts.end(1);
  EXPECT_EQ(seen, "ab12x");
}

TEST(TextsInTurn, AnyOrderOfComingAndEndingGivesTheTextsJoined) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 6;
    std::string seen, wanted;
    std::vector<std::string> texts(count);
    std::vector<bool> ended(count, false);
    TextsInTurn in_order(count, [&](std::size_t, std::string_view text) { seen += text; });
    for (std::size_t left = count; left > 0;) {
      const std::size_t i = random() % count;
      if (ended[i]) continue;
      if (random() % 4 == 0) {
        in_order.end(i);
        ended[i] = true;
        --left;
        continue;
      }
      const std::string part(1, static_cast<char>('a' + random() % 26));
      texts[i] += part;
      in_order.add(i, part);
    }
    for (const std::string& text : texts) wanted += text;
    EXPECT_EQ(seen, wanted);
  }
}

}  // namespace
}  // namespace weft
