// A stop filter gives out the same text however the stream is cut into pieces.
#include <random>

#include <gtest/gtest.h>

#include "weft/llm/engine/generate.h"

namespace weft {
namespace {

std::string through(const std::vector<std::string>& stops, const std::string& text, std::mt19937& random) {
  StopFilter filter(stops);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(text.size() - at, random() % 4);
    out += filter.add(text.substr(at, size));
    at += size;
  }
  return filter.stopped() ? out : out + filter.finish();
}

std::string up_to_first(const std::vector<std::string>& stops, const std::string& text) {
  std::size_t first = text.size();
  for (const std::string& stop : stops)
    if (!stop.empty()) first = std::min(first, text.find(stop));
  return text.substr(0, first);
}

// Texts of few letters, so that stops and their beginnings are frequent.
TEST(StopFilter, PiecesDoNotMatter) {
  std::mt19937 random(1);
  const std::vector<std::vector<std::string>> choices = {
      {"ab"}, {"aab", "b"}, {"aaaa"}, {"abab", "ba"}, {"abc", "bca", "cab"}, {}, {""}, {"", "ca"}};
  for (const auto& stops : choices)
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (auto left = random() % 20; left > 0; --left) text += static_cast<char>('a' + random() % 3);
      std::string want = up_to_first(stops, text);
      const std::string found = through(stops, text, random);
      // A stop that ends first may be seen before a longer one that begins earlier: then the text is the longer one.
      EXPECT_EQ(found.substr(0, want.size()), want) << text;
      EXPECT_EQ(text.substr(0, found.size()), found) << text;
      if (stops.size() <= 1) {
        EXPECT_EQ(found, want) << text;
      }
    }
}

TEST(StopFilter, WithoutStopsNothingIsHeldBack) {
  for (const std::vector<std::string>& stops : {std::vector<std::string>{}, std::vector<std::string>{""}}) {
    StopFilter filter(stops);
    EXPECT_EQ(filter.add("abc"), "abc");
    EXPECT_EQ(filter.finish(), "");
    EXPECT_FALSE(filter.stopped());
  }
}

TEST(StopFilter, TheFirstStopInTheTextWins) {
  StopFilter filter({"later", "now"});
  EXPECT_EQ(filter.add("here now, not later"), "here ");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.add("x"), "");
  EXPECT_EQ(filter.finish(), "") << "what follows a stop never comes out";
}

TEST(StopFilter, AStopOfOneLetterHoldsNothingBack) {
  StopFilter filter({"."});
  EXPECT_EQ(filter.add("a b"), "a b");
  EXPECT_EQ(filter.add("."), "");
  EXPECT_TRUE(filter.stopped());
}

}  // namespace
}  // namespace weft
