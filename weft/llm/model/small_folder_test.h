// A model folder small enough for tests of whole commands: the weights of tests/models/llama-gqa, and a tokenizer of
// single letters, so that any text of a to p has a token per letter.
#pragma once

#include <filesystem>
#include <random>
#include <string>

#include "weft/io/scratch_folder_test.h"

namespace weft {

class SmallFolder : public ScratchFolder {
 public:
  SmallFolder() {
    const std::string from = std::string(WEFT_SOURCE) + "/tests/models/llama-gqa/";
    for (const char* name : {"config.json", "model.safetensors"}) std::filesystem::copy(from + name, file(name));
    std::string vocab;
    for (int i = 0; i < 16; ++i)
      vocab += (i == 0 ? "\"" : ",\"") + std::string(1, static_cast<char>('a' + i)) + "\":" + std::to_string(i);
    write(
        "tokenizer.json",
        R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
        R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","unk_token":"a","vocab":{)" +
            vocab + R"(},"merges":[]}})");
  }

  static std::string letters(int count, unsigned seed) {
    std::mt19937 random(seed);
    std::string text;
    while (std::ssize(text) < count) text += static_cast<char>('a' + random() % 16);
    return text;
  }
};

}  // namespace weft
