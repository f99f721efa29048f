// A text as `weft spd centre` and `weft spd ablate` read it: one stream of the model's tokens, cut into windows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/llm/eval/eval.h"
#include "weft/llm/model/model.h"

#include "cli/command.h"

namespace weft::cli::spd {

struct WindowedText {
  std::vector<int> stream;
  std::int64_t window = 0;
  std::vector<TokenWindow> windows;  // of the stream
};

struct TextFlags {
  std::string model, text;
  int tp = 4, threads = 0;  // threads: 0 before check_text_flags()
  std::int64_t samples = 8, window = 0;
};

// --samples, whose default the help names, --window and --threads.
void add_window_flags(CLI::App& command, TextFlags* flags, const std::string& samples_help);
// Throws bad_input; fills in the threads.
void check_text_flags(TextFlags* flags);
WindowedText read_windows(const TextFlags& flags, const ModelConfig& config);

}  // namespace weft::cli::spd
