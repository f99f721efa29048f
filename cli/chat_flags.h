// The flags of commands in which a model answers people: `weft chat` and `weft serve`.
#pragma once

#include <memory>
#include <string>

#include "weft/llm/chat/chat_setup.h"

#include "cli/rank_flags.h"

namespace weft::cli {

struct ChatFlags {
  std::string model, spd;
  RankFlags ranks{.threads = 0, .transport = "threads"};
  std::int64_t context = 0;
  GenerateOptions options{.max_tokens = 512};
  WeightPlace weights = WeightPlace::mapped;
  bool sampler_given = false;  // to be set when all flags are known
};

void add_chat_flags(CLI::App& app, ChatFlags* flags);

// Checks the flags, and loads what they name.
std::shared_ptr<const ChatSetup> chat_setup(ChatFlags* flags);

}  // namespace weft::cli
