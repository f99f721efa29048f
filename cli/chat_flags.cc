#include "cli/chat_flags.h"

#include <CLI/CLI.hpp>

#include "weft/base/error.h"
#include "weft/transport/local/shm.h"

#include "cli/flag_values.h"
#include "cli/ranks.h"
#include "cli/sampling_flags.h"
#include "cli/weights_flag.h"

namespace weft::cli {

void add_chat_flags(CLI::App& app, ChatFlags* flags) {
  app.add_option("--model", flags->model, "a folder or a GGUF file")->type_name("DIR")->required();
  add_number(app, "--max-tokens", &flags->options.max_tokens, "tokens of an answer at most")->capture_default_str();
  add_number(app, "--context", &flags->context, "tokens of a conversation at most (4096, or the model's length)", 2)
      ->type_name("TOKENS");
  add_sampling_flags(app, &flags->options.sampler);
  app.add_option("--spd", flags->spd, "an spd file: the mode of every block, and repaired weights")->type_name("FILE");
  add_ranks_flag(app, &flags->ranks,
                 "ranks, threads of this process; under mpirun or weft run the ranks are theirs (1)");
  add_threads_flag(app, &flags->ranks, "threads of each rank (the cores there are, shared)");
  add_link_flag(app, &flags->ranks);
  add_weights_flag(app, &flags->weights);
}

std::shared_ptr<const ChatSetup> chat_setup(ChatFlags* flags) {
  if (!launched()) check_num_ranks(flags->ranks.count);
  fill_threads(&flags->ranks);
  check_rank_flags(flags->ranks);
  if (flags->options.max_tokens < 1) bad_input("--max-tokens is {}; use 1 or more", flags->options.max_tokens);
  return load_chat_setup({.model = flags->model,
                          .spd = flags->spd,
                          .ranks = num_ranks(flags->ranks.count),
                          .context = flags->context,
                          .generate = flags->options,
                          .sampler_given = flags->sampler_given});
}

}  // namespace weft::cli
