// What the flags of `weft generate` come to: the model, the prompts as tokens, every block's mode.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/os/piped_file.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/generation_config.h"
#include "weft/llm/engine/prompts.h"
#include "weft/llm/model/random_model.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/transport/local/shm.h"

#include "cli/generate/generate.h"

namespace weft::cli::generate {
namespace {

Modes modes_of(const Flags& flags, const ModelConfig& config) {
  Modes modes = all_blocks(config.blocks, {});
  if (!flags.wire.empty()) {
    const BlockMode all = parse_block_mode(flags.wire == "f32" ? "sync" : flags.wire);
    if (all.drop) bad_input("--wire is {}; use f32, bf16 or int8, and --drop for blocks to drop", flags.wire);
    std::fill(modes.begin(), modes.end(), all);
  }
  if (flags.drop.empty()) return modes;
  const auto dropped = parse_dropped(flags.drop, config.blocks, "--drop");
  for (std::size_t b = 0; b < modes.size(); ++b) modes[b].drop = dropped[b];
  return modes;
}

void set_source(const Flags& flags, int ranks, bool whole, Task* task) {
  if (!flags.random.empty()) {
    task->source.config = parse_config(load_json(flags.random), flags.random);
    if (whole) task->source = random_model(flags.random, {.threads = flags.ranks.threads});
    task->modes = modes_of(flags, task->source.config);
  } else if (!flags.spd.empty()) {
    const SpdFile spd = load_spd(flags.spd);
    if (!whole) check_spd_weights(spd);
    task->source = open_model(flags.model, spd, ranks);
    task->modes = spd.blocks;
  } else {
    task->source = open_model(flags.model);
    task->modes = modes_of(flags, task->source.config);
  }
}

Prompts prompts_of(const Flags& flags, const Task& task) {
  Prompts prompts(task.source.config, task.tokenizer.get());
  for (const std::string& text : flags.prompts) prompts.add_text(text, "--prompt");
  if (!flags.prompt_file.empty()) prompts.add_file(flags.prompt_file);
  for (const std::string& ids : flags.prompt_ids) prompts.add_ids(ids, "--prompt-ids");
  if (!flags.prompts_file.empty()) prompts.add_lines(flags.prompts_file);
  if (prompts.tokens().empty()) bad_input("there is no prompt; give --prompt TEXT or --prompt-ids 1,15,7");
  return prompts;
}

}  // namespace

Task task_of(const Flags& flags, int ranks, bool whole) {
  Task task;
  set_source(flags, ranks, whole, &task);
  // A folder without a tokenizer does for prompts of tokens.
  const bool texts = !flags.prompts.empty() || !flags.prompt_file.empty() || !flags.prompts_file.empty();
  if (!flags.model.empty() && (texts || Tokenizer::is_in(flags.model))) task.tokenizer = Tokenizer::load(flags.model);
  const Prompts prompts = prompts_of(flags, task);
  task.prompts = prompts.tokens();
  task.prompt_texts = prompts.texts();
  task.num_prompt_tokens = prompts.num_tokens();
  task.engine = prompts.engine_options(flags.options.max_tokens, flags.rows);
  task.engine.sync = parse_style(flags.sync);
  task.engine.panels = flags.panels;
  task.engine.activations = parse_activations(flags.activations);
  task.generate = flags.options;
  task.generate.prompt_logits = !flags.logits.empty();
  task.generate.goes_on = true;
  const GenerationConfig own =
      flags.model.empty() ? GenerationConfig{} : load_generation_config(flags.model, task.source.config.vocab);
  apply_generation_config(own, task.source.config, task.tokenizer.get(), flags.samples, &task.generate);
  if (flags.ignore_eos) task.generate.eos.clear();
  if (task.tokenizer == nullptr && !flags.options.stops.empty())
    bad_input("--stop needs a tokenizer, and this model has none; leave it out");
  return task;
}

void complete(Flags* flags) {
  fill_threads(&flags->ranks);
  // "--prompt -" is standard input too: nobody goes on from a dash.
  if (std::erase(flags->prompts, "-") > 0) {
    if (!flags->prompt_file.empty())
      bad_input("--prompt - and --prompt-file {} both name a file; leave one out", flags->prompt_file);
    flags->prompt_file = "-";
  }
  if (flags->prompt_file == "-" && flags->prompts_file == "-")
    bad_input("--prompt-file and --prompts are both standard input; give one of them as a file");
  const auto copied = [](std::string* path, const char* variable) {
    if (!path->empty()) *path = repeatable_path(*path, {.variable = variable, .may_read = !launched()});
  };
  copied(&flags->prompt_file, "WEFT_PROMPT_COPY");
  copied(&flags->prompts_file, "WEFT_PROMPTS_COPY");
}

void check_flags(const Flags& flags) {
  if (flags.model.empty() == flags.random.empty())
    bad_input("give a model: --model DIR, or --random CONFIG.json for one of random weights; not both");
  if (flags.ranks.count < 1) bad_input("--ranks is {}; use 1 or more", flags.ranks.count);
  check_rank_flags(flags.ranks);
  if (flags.options.max_tokens < 1) bad_input("--max-tokens is {}; use 1 or more", flags.options.max_tokens);
  if (flags.rows < 1) bad_input("--rows is {}; use 1 or more", flags.rows);
  if (flags.panels < 1) bad_input("--panels is {}; use 1 or more", flags.panels);
  if (!flags.spd.empty() && (!flags.wire.empty() || !flags.drop.empty()))
    bad_input("--spd says what every block does; leave out --wire and --drop");
  if (!flags.spd.empty() && flags.model.empty()) bad_input("--spd is for a model with files; use --model");
  parse_style(flags.sync);
  parse_activations(flags.activations);
  check_sampler(flags.options.sampler);
}

}  // namespace weft::cli::generate
