#include "cli/spd/windowed_text.h"

#include "weft/base/error.h"
#include "weft/io/text/tokenizer.h"

#include "cli/flag_values.h"
#include "cli/rank_flags.h"

namespace weft::cli::spd {

void add_window_flags(CLI::App& command, TextFlags* flags, const std::string& samples_help) {
  add_number(command, "--samples", &flags->samples, samples_help)->type_name("N");
  add_number(command, "--window", &flags->window, "tokens of a window (the model's length, 2048 at most)")
      ->type_name("TOKENS");
  add_number(command, "--threads", &flags->threads, "threads (the cores there are)", 1)->type_name("T");
}

void check_text_flags(TextFlags* flags) {
  if (flags->tp < 2 || flags->tp > 64) bad_input("--tp is {}; use 2 to 64", flags->tp);
  if (flags->samples < 1) bad_input("--samples is {}; use 1 or more", flags->samples);
  if (flags->threads == 0) flags->threads = threads_sharing_cores(1);
}

WindowedText read_windows(const TextFlags& flags, const ModelConfig& config) {
  WindowedText out;
  out.stream = read_stream(*Tokenizer::load(flags.model), flags.text);
  out.window = window_length(config, flags.window);
  out.windows = cut_windows(out.stream, out.window, flags.samples);
  return out;
}

}  // namespace weft::cli::spd
