// Merging by a heap against merging by search, and tries against loops over all pieces.
#include "weft/io/text/merges.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/io/text/piece_trie.h"

namespace weft {
namespace {

struct Pair {
  int left, right, merged;
};

// The obvious way: the first pair of the list that is anywhere in the tokens, leftmost, again and again.
std::vector<int> merged_plainly(std::vector<int> tokens, const std::vector<Pair>& pairs) {
  for (bool again = true; again;) {
    again = false;
    for (const Pair& pair : pairs) {
      for (std::size_t i = 0; i + 1 < tokens.size() && !again; ++i)
        if (tokens[i] == pair.left && tokens[i + 1] == pair.right) {
          tokens[i] = pair.merged;
          tokens.erase(tokens.begin() + i + 1);
          again = true;
        }
      if (again) break;
    }
  }
  return tokens;
}

TEST(Merges, AreThoseOfTheObviousWay) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Pair> pairs;
    Merges merges;
    int next = 4;
    for (int i = 0; i < 12; ++i) {
      const int left = static_cast<int>(random() % num(next)), right = static_cast<int>(random() % num(next));
      bool there = false;
      for (const Pair& pair : pairs) there = there || (pair.left == left && pair.right == right);
      if (there) continue;
      pairs.push_back({left, right, next});
      merges.add(left, right, next++);
    }
    for (int text = 0; text < 10; ++text) {
      std::vector<int> tokens(random() % 40);
      for (int& token : tokens) token = static_cast<int>(random() % 4);
      std::vector<int> found = tokens;
      merges.apply(found);
      EXPECT_EQ(found, merged_plainly(tokens, pairs));
    }
  }
}

TEST(Merges, NothingToMergeIsLeftAlone) {
  Merges merges;
  std::vector<int> none, one{3}, some{1, 2, 1};
  merges.add(2, 2, 9);
  for (std::vector<int>* tokens : {&none, &one, &some}) {
    const std::vector<int> before = *tokens;
    merges.apply(*tokens);
    EXPECT_EQ(*tokens, before);
  }
}

// An odd run of one token: the leftmost pairs are merged, and the last token stays.
TEST(Merges, EqualPairsAreMergedFromTheLeft) {
  Merges merges;
  merges.add(1, 1, 2);
  merges.add(2, 2, 3);
  std::vector<int> tokens(7, 1);
  merges.apply(tokens);
  EXPECT_EQ(tokens, (std::vector<int>{3, 2, 1}));
}

TEST(PieceTrie, FindsEveryPieceThatATextBeginsWith) {
  std::mt19937 random(2);
  std::vector<std::string> pieces;
  PieceTrie trie;
  for (int id = 0; id < 60; ++id) {
    std::string piece;
    for (auto left = 1 + random() % 5; left > 0; --left) piece += static_cast<char>('a' + random() % 2);
    if (std::find(pieces.begin(), pieces.end(), piece) != pieces.end()) piece += std::string(at(id), '\xff');
    trie.add(piece, id);
    pieces.push_back(piece);
  }
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (auto left = random() % 9; left > 0; --left) text += static_cast<char>('a' + random() % 2);
    std::vector<std::string> found;
    std::size_t longest = 0;
    trie.for_each_prefix(text, [&](std::size_t length, int id) {
      EXPECT_EQ(pieces[at(id)], text.substr(0, length));
      EXPECT_GT(length, longest) << "shortest first";
      longest = length;
      found.push_back(pieces[at(id)]);
    });
    EXPECT_EQ(trie.longest_prefix(text), longest);
    const auto all = std::count_if(pieces.begin(), pieces.end(), [&](const auto& p) { return text.starts_with(p); });
    EXPECT_EQ(std::ssize(found), all) << text;
  }
  EXPECT_EQ(PieceTrie().longest_prefix("a"), 0u);
}

}  // namespace
}  // namespace weft
