#include "weft/io/text/pipeline_tokenizer.h"

#include "weft/base/index.h"
#include "weft/io/unicode/unicode.h"

namespace weft {

void PipelineTokenizer::add_tokens(std::vector<AddedToken> added) {
  for (const AddedToken& token : added) {
    const auto place = num(token.id);
    if (place >= pieces_.size()) pieces_.resize(place + 1);
    pieces_[place] = token.text;
  }
  set_added(std::move(added));
}

std::string PipelineTokenizer::normalised(std::string_view text) const {
  if (pipeline_.pre_tokenizer.is_byte_level()) return pipeline_.normalizer.apply(text);
  std::string well_formed;
  while (!text.empty()) {
    const Character next = first_character(text);
    append_utf8(next.point, well_formed);
    text.remove_prefix(next.length);
  }
  return pipeline_.normalizer.apply(well_formed);
}

void PipelineTokenizer::encode_plain(std::string_view text, bool first, std::vector<int>& tokens) const {
  for (const std::string& word : pipeline_.pre_tokenizer.words(std::string(text), first)) encode_word(word, tokens);
}

}  // namespace weft
