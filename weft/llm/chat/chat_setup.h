// What a model's folder, and an spd file beside it, come to for answering people: the same on all ranks, which may
// share it where they are threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/io/text/chat_template.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/generate.h"
#include "weft/llm/model/block_mode.h"
#include "weft/llm/model/model.h"

namespace weft {

struct ChatSetupOptions {
  std::string model;  // a folder or a GGUF file
  std::string spd;    // a file with the mode of every block; empty: none
  int ranks = 1;
  std::int64_t context = 0;  // tokens of a sequence; 0: 4096. At most the model's
  GenerateOptions generate;
  bool sampler_given = false;  // else the folder's generation_config.json says it
};

struct ChatSetup {
  ModelSource source;
  Modes modes;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;  // none where the folder has none
  GenerateOptions generate;
  std::int64_t capacity = 0;  // tokens of a sequence
};

// Throws bad_input where the files cannot be read.
std::shared_ptr<const ChatSetup> load_chat_setup(const ChatSetupOptions& options);

}  // namespace weft
