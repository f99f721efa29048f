// Merging by a heap against merging by search, tries against loops over all pieces, and how texts are cut into pieces
// against trying everything.
#include "weft/io/text/merges.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/io/sentencepiece/sentencepiece_search.h"
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

using Kind = SentencePieceModel::Kind;

// The unknown piece, one per letter of "abc", and random longer ones. Scores are whole numbers, so that sums are exact.
SentencePieceModel random_pieces(Kind kind, std::mt19937& random, bool letters = true) {
  SentencePieceModel model;
  model.kind = kind;
  model.unknown = 0;
  model.pieces.push_back({"<unk>", 0, PieceType::unknown});
  std::map<std::string, bool> there;
  const auto add = [&](const std::string& text, float score) {
    if (there.emplace(text, true).second) model.pieces.push_back({text, score, PieceType::normal});
  };
  if (letters)
    for (const char* letter : {"a", "b", "c"}) add(letter, -20.0f - static_cast<float>(random() % 5));
  for (int i = 0; i < 12; ++i) {
    std::string text;
    for (auto left = 2 + random() % 3; left > 0; --left) text += static_cast<char>('a' + random() % 3);
    add(text, -static_cast<float>(random() % 64));
  }
  return model;
}

std::string random_text(std::mt19937& random, std::size_t most) {
  std::string text;
  for (auto left = 1 + random() % most; left > 0; --left) text += static_cast<char>('a' + random() % 3);
  return text;
}

std::vector<std::string> texts_of(const std::vector<PieceCut>& cuts) {
  std::vector<std::string> out;
  for (const PieceCut& cut : cuts) out.emplace_back(cut.text);
  return out;
}

void expect_covered(const std::vector<PieceCut>& cuts, const std::string& text, const SentencePieceModel& model) {
  std::string joined;
  for (const PieceCut& cut : cuts) {
    joined += cut.text;
    if (cut.id != model.unknown) {
      EXPECT_EQ(model.pieces[at(cut.id)].text, cut.text);
    }
  }
  EXPECT_EQ(joined, text);
}

// The neighbours whose joined text is the piece of highest score, leftmost of equal ones, again and again.
std::vector<std::string> merged_by_search(const SentencePieceModel& model, const std::string& text) {
  std::map<std::string, float> score;
  for (const SentencePiece& piece : model.pieces)
    if (piece.is_text()) score[piece.text] = piece.score;
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  while (true) {
    std::size_t best = symbols.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = score.find(symbols[i] + symbols[i + 1]);
      if (found == score.end()) continue;
      if (best == symbols.size() || found->second > score.at(symbols[best] + symbols[best + 1])) best = i;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(PieceSearch, BpeMergesAsTheObviousWay) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const SentencePieceModel model = random_pieces(Kind::bpe, random);
    const PieceIndex index(model);
    for (int i = 0; i < 10; ++i) {
      const std::string text = random_text(random, 24);
      const auto cuts = cut_bpe(index, text);
      expect_covered(cuts, text, model);
      EXPECT_EQ(texts_of(cuts), merged_by_search(model, text)) << text;
    }
  }
}

// The largest sum over all ways to cut the text, by recursion; a letter that is no piece costs the lowest score and 10.
double best_sum(const SentencePieceModel& model, const std::string& text, double unknown) {
  if (text.empty()) return 0;
  double best = -1e30;
  bool letter = false;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != PieceType::normal || !text.starts_with(piece.text)) continue;
    letter = letter || piece.text.size() == 1;
    best = std::max(best, piece.score + best_sum(model, text.substr(piece.text.size()), unknown));
  }
  if (!letter) best = std::max(best, unknown + best_sum(model, text.substr(1), unknown));
  return best;
}

TEST(PieceSearch, UnigramFindsTheLargestSum) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    const SentencePieceModel model = random_pieces(Kind::unigram, random, round % 2 == 0);
    const PieceIndex index(model);
    const double unknown = index.lowest_score - 10;
    for (int i = 0; i < 10; ++i) {
      const std::string text = random_text(random, 10);
      const auto cuts = cut_unigram(index, text);
      expect_covered(cuts, text, model);
      double sum = 0;
      for (const PieceCut& cut : cuts) sum += cut.id == model.unknown ? unknown : model.pieces[at(cut.id)].score;
      EXPECT_EQ(sum, best_sum(model, text, unknown)) << text;
    }
  }
}

// BPE never merges them with anything. For unigram they are worth the highest score per byte, less a little.
TEST(PieceSearch, UserDefinedPiecesGoBeforeOthers) {
  SentencePieceModel model;
  model.unknown = 0;
  model.pieces = {{"<unk>", 0, PieceType::unknown},
                  {"a", -3, PieceType::normal},
                  {"b", -3, PieceType::normal},
                  {"ab", -1, PieceType::normal},
                  {"ba", -9, PieceType::user_defined}};
  using Texts = std::vector<std::string>;
  model.kind = Kind::bpe;
  const PieceIndex merges(model);
  EXPECT_EQ(texts_of(cut_bpe(merges, "aba")), (Texts{"a", "ba"}));
  model.kind = Kind::unigram;
  const PieceIndex sums(model);
  EXPECT_EQ(texts_of(cut_unigram(sums, "ba")), Texts{"ba"}) << "-2.1 against -6";
  EXPECT_EQ(texts_of(cut_unigram(sums, "aba")), (Texts{"ab", "a"})) << "-4 against -5.1";
}

// A piece that is unused is a step towards a longer one, and torn again where it is left over.
TEST(PieceSearch, UnusedPiecesGoBackToTheirHalves) {
  SentencePieceModel model;
  model.kind = Kind::bpe, model.unknown = 0;
  model.pieces = {{"<unk>", 0, PieceType::unknown}, {"a", -9, PieceType::normal},  {"b", -9, PieceType::normal},
                  {"c", -9, PieceType::normal},     {"ab", -1, PieceType::unused}, {"abc", -2, PieceType::normal}};
  const PieceIndex index(model);
  EXPECT_EQ(texts_of(cut_bpe(index, "abc")), std::vector<std::string>{"abc"});
  EXPECT_EQ(texts_of(cut_bpe(index, "abab")), (std::vector<std::string>{"a", "b", "a", "b"}));
}

TEST(PieceSearch, WhatNoPieceHasIsUnknownCharacterByCharacter) {
  std::mt19937 random(5);
  for (const Kind kind : {Kind::bpe, Kind::unigram}) {
    const SentencePieceModel model = random_pieces(kind, random);
    const PieceIndex index(model);
    const std::string text =
        "a\xE4\xB8\xAD\xE6\x96\x87"
        "c";
    const auto cuts = kind == Kind::bpe ? cut_bpe(index, text) : cut_unigram(index, text);
    EXPECT_EQ(texts_of(cuts), (std::vector<std::string>{"a", "\xE4\xB8\xAD", "\xE6\x96\x87", "c"}));
    EXPECT_EQ(cuts[1].id, 0);
    EXPECT_TRUE((kind == Kind::bpe ? cut_bpe(index, "") : cut_unigram(index, "")).empty());
  }
}

}  // namespace
}  // namespace weft
