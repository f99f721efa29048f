// A sentencepiece model file (tokenizer.model) as plain data, checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/io/sentencepiece/charsmap.h"

namespace weft {

enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;

  bool is_text() const {  // may stand for a stretch of a text
    return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused;
  }
};

struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };

  std::vector<SentencePiece> pieces;  // by id
  Kind kind = Kind::unigram;
  bool byte_fallback = false;
  int unknown = -1;
  std::string unknown_text = " \xE2\x81\x87 ";  // what the unknown piece decodes to
  std::string bos, eos;                         // texts of control pieces; empty where there are none
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  Charsmap charsmap;
};

// Throws bad_input naming the file and the field where it is damaged, or asks for what is not done here.
SentencePieceModel parse_sentencepiece(std::string_view file, const std::string& path);

}  // namespace weft
