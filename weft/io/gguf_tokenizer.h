// The tokenizer that a GGUF file carries: the whole of tokenizer.json where the file has it, else llama.cpp's lists of
// tokens, types, merges and scores, told as the tokenizer.json that they stand for: byte-level BPE ("gpt2") and
// sentencepiece's BPE ("llama").
#pragma once

#include <memory>
#include <string>

#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft {

class GgufFile;

bool has_gguf_tokenizer(const std::string& path);
std::unique_ptr<Tokenizer> load_gguf_tokenizer(const std::string& path);  // throws bad_input

// What load_gguf_tokenizer reads. Throws bad_input for a kind that is none of these, and for lists that do not fit.
Json gguf_tokenizer_json(const GgufFile& file);

}  // namespace weft
