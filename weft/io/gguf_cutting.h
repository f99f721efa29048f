// How byte-level tokenizers of GGUF files cut texts into words: the setting "tokenizer.ggml.pre" is a name that
// llama.cpp knows, and what it stands for is written here as the stages of the tokenizer.json that it came from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "weft/base/json.h"

namespace weft {

struct GgufCutting {
  Json normalizer, pre_tokenizer;  // null: none
  bool ignore_merges = false, adds_bos = false;
};

std::optional<GgufCutting> gguf_cutting(std::string_view name);
std::string gguf_cutting_names();  // "gpt-2, llama-bpe, ..."

// The name for a tokenizer.json that cuts and merges like this; empty where llama.cpp has none that Weft knows.
std::string gguf_cutting_name(const Json& tokenizer);

}  // namespace weft
