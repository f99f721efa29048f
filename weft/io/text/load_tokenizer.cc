// Finds the files of a tokenizer in a model's folder.
#include <filesystem>

#include "weft/base/error.h"
#include "weft/io/gguf_tokenizer.h"
#include "weft/io/model_folder.h"
#include "weft/io/sentencepiece/sentencepiece.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/text/tokenizer.h"
#include "weft/io/text/tokenizer_config.h"
#include "weft/io/text/tokenizer_json.h"

namespace weft {
namespace {

constexpr int kVocabGuess = 1 << 20;  // bounds ids of added tokens before a vocabulary is read

bool is_there(const std::string& folder, const char* name) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + name, error);
}

}  // namespace

bool Tokenizer::is_in(const std::string& folder) {
  if (is_gguf(folder)) return has_gguf_tokenizer(folder);
  return is_there(folder, "tokenizer.json") || is_there(folder, "tokenizer.model") ||
         (is_there(folder, "vocab.json") && is_there(folder, "merges.txt"));
}

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string& folder) {
  if (is_gguf(folder)) return load_gguf_tokenizer(folder);
  const auto has = [&](const char* name) { return is_there(folder, name); };
  check_model_folder(folder);
  const TokenizerConfig config = TokenizerConfig::load(folder);
  LoadedTokenizer loaded;
  TokenizerConfig::OwnWords own;
  if (has("tokenizer.json")) {
    loaded = load_tokenizer_json(folder + "/tokenizer.json");
    own = {loaded.template_bos, "", !loaded.template_bos.empty()};
  } else if (has("tokenizer.model")) {
    LoadedSentencePiece pieces =
        load_sentencepiece(folder + "/tokenizer.model", config.added(kVocabGuess),
                           config.legacy() ? SpaceBefore::every_stretch : SpaceBefore::the_first);
    loaded.tokenizer = std::move(pieces.tokenizer);
    own = {pieces.bos, pieces.eos, !pieces.bos.empty()};
  } else if (has("vocab.json") && has("merges.txt")) {
    loaded = load_vocab_and_merges(folder + "/vocab.json", folder + "/merges.txt", config.prefix_space(),
                                   config.added(kVocabGuess));
  } else {
    bad_input("{}: there is no tokenizer.json, no tokenizer.model and no vocab.json with merges.txt; add one of them",
              folder);
  }
  config.apply(own, *loaded.tokenizer);
  return std::move(loaded.tokenizer);
}

}  // namespace weft
