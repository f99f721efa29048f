// How sentencepiece cuts a normalised text into pieces: two ways, both from piece texts and scores.
#pragma once

#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/io/sentencepiece/sentencepiece_model.h"
#include "weft/io/text/piece_trie.h"

namespace weft {

struct PieceIndex {
  explicit PieceIndex(const SentencePieceModel& model);

  const SentencePieceModel* model;
  std::unordered_map<std::string_view, int> ids;  // of pieces that may stand for text; views into the model
  PieceTrie pieces, user_defined;
  std::size_t longest = 0;                                 // bytes of the longest piece
  float lowest_score = std::numeric_limits<float>::max();  // of normal pieces
  float highest_score = std::numeric_limits<float>::lowest();
};

struct PieceCut {
  std::string_view text;
  int id;  // the unknown piece where no piece has this text
};

// Merges the neighbours whose joined text is the piece of highest score, leftmost first, until none is left. n log n.
std::vector<PieceCut> cut_bpe(const PieceIndex& index, std::string_view text);

// The pieces whose scores, log-probabilities, have the largest sum. A pass over the text; at each character the pieces
// that begin there.
std::vector<PieceCut> cut_unigram(const PieceIndex& index, std::string_view text);

}  // namespace weft
