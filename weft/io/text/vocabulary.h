// A vocabulary and its merges as JSON has them, checked: the common part of tokenizer.json and of vocab.json with
// merges.txt.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/base/json.h"
#include "weft/io/text/merges.h"
#include "weft/io/text/tokenizer.h"

namespace weft {

struct Vocabulary {
  std::vector<std::string> texts;  // by id; empty where no token has the id
  std::unordered_map<std::string, int> ids;

  std::optional<int> find(const std::string& text) const;
  void add(const std::string& text, int id);  // makes room; an id that has a text keeps both ways to it
};

// {"text": id, ...}. Throws bad_input where two tokens have one id, or ids leave so many holes that the file is
// damaged.
Vocabulary read_vocabulary(const Json& object, std::string_view where);

// The merges of "a b" strings or ["a", "b"] pairs; both and their sum must be in the vocabulary.
Merges read_merges(const Json& array, const Vocabulary& vocabulary, std::string_view where);
void add_merge(const std::string& left, const std::string& right, std::size_t number, const Vocabulary& vocabulary,
               std::string_view where, Merges& merges);

// One entry of "added_tokens" (its id is in it) or of "added_tokens_decoder" (it is the key).
AddedToken read_added_token(const Json& object, int id, std::string_view where);

// Largest id that a file of `count` tokens may use: holes are usual, but few.
int largest_id(std::size_t count);

}  // namespace weft
