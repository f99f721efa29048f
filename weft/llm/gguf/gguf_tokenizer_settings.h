// A folder's tokenizer as settings of a GGUF file: the whole of tokenizer.json, which Weft reads back, the chat
// template, and for byte-level BPE the lists that llama.cpp reads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/io/tensor/write_gguf.h"

namespace weft {

// Returns whether llama.cpp's lists are there. A folder without tokenizer.json adds nothing.
bool add_tokenizer_settings(const std::string& folder, std::vector<std::pair<std::string, GgufSetting>>* settings);

}  // namespace weft
