// `weft eval`: flags, refusals, and who does what. The command starts itself again as ranks; rank 0 prints.
#include "cli/eval/eval.h"

#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/world/world.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"

namespace weft::cli {
namespace eval {
namespace {

bool is_saved(const std::string& name) { return name.ends_with(".json"); }

// A model as an spd file has it; "none" or nothing: as it is.
struct Configuration {
  ModelSource source;
  Modes modes;
};
Configuration open(const std::string& model, const std::string& spd, int ranks) {
  if (spd.empty() || spd == "none") return {open_model(model), {}};
  const SpdFile file = load_spd(spd);
  return {open_model(model, file, ranks), file.blocks};
}

// A model folder may bring its own text and items; they are taken where nothing is asked for.
void fill_in(Flags* flags) {
  EvalOptions& options = flags->options;
  if (!options.text.empty() || !options.tasks.empty()) return;
  std::error_code error;
  const std::string text = flags->model + "/heldout.txt", tasks = flags->model + "/tasks.jsonl";
  if (std::filesystem::is_regular_file(text, error)) options.text = text;
  if (std::filesystem::is_regular_file(tasks, error)) options.tasks = tasks;
  if (options.text.empty() && options.tasks.empty())
    bad_input("nothing to evaluate on: {} has neither heldout.txt nor tasks.jsonl; give --text or --tasks",
              flags->model);
}

// All that can be refused without ranks, once, before any is started.
void check_flags(const Flags& flags) {
  check_num_ranks(flags.ranks.count);
  check_rank_flags(flags.ranks);
  if (flags.options.limit < 0) bad_input("--limit is {}; use 1 or more, or leave it out", flags.options.limit);
  window_length(load_config(flags.model), flags.options.window);
  for (const std::string& path : {flags.spd, flags.against})
    if (!path.empty() && path != "none" && !is_saved(path)) {
      open(flags.model, path, flags.ranks.count);
      check_spd_weights(load_spd(path));
    }
}

void run_rank(World& world, const Flags& flags) {
  Progress progress(world.rank() == 0 ? Progress::Who::speaks : Progress::Who::is_silent);
  const auto tokenizer = Tokenizer::load(flags.model);
  const EvalInputs inputs = read_eval_inputs(flags.options, *tokenizer, load_config(flags.model));
  const auto evaluated = [&](const Configuration& of, const std::string& which) {
    return evaluate(world, of.source, of.modes, inputs,
                    [&](std::string_view what, std::int64_t done, std::int64_t all) {
                      progress.show(fmt::format("{}{}", which, what), done, all);
                    });
  };
  const Configuration own = open(flags.model, flags.spd, world.size());
  const Evaluation found = evaluated(own, "");
  Report report{flags, inputs, found, own.modes.empty() ? "all blocks synchronised" : summary(own.modes), {}};
  if (is_saved(flags.against))
    report.against = load_evaluation(flags.against, inputs);
  else if (!flags.against.empty())
    report.against = evaluated(open(flags.model, flags.against, world.size()), "against: ");
  if (world.rank() != 0) return;
  if (!flags.save.empty()) save_evaluation(flags.save, {flags.model, flags.spd, world.size()}, inputs, found);
  progress.show("");
  fmt::print("{}", flags.json ? json_report(report) : text_report(report));
}

int run(Flags flags) {
  fill_in(&flags);
  flags.ranks.count = num_ranks(flags.ranks.count);
  fill_threads(&flags.ranks);
  if (flags.ranks.count == 1 && flags.ranks.transport == "shm")
    flags.ranks.transport = "threads";  // one needs no process
  const auto body = [&](World& world) {
    run_rank(world, flags);
    return 0;
  };
  return on_ranks(flags.ranks, body, {.before = [&] { check_flags(flags); }});
}

}  // namespace
}  // namespace eval

void add_eval(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("eval", "perplexity and zero-shot accuracy of a model, with intervals");
  auto flags = std::make_shared<eval::Flags>();
  EvalOptions& options = flags->options;
  command->add_option("--model", flags->model, "a Hugging Face folder or a GGUF file")->type_name("DIR")->required();
  add_ranks_flag(*command, &flags->ranks, "tensor-parallel ranks, processes of this machine (1)");
  command->add_option("--spd", flags->spd, "modes and repaired weights, as `weft spd` writes them")->type_name("FILE");
  command->add_option("--text", options.text, "perplexity on this text (the folder's heldout.txt)")->type_name("FILE");
  command->add_option("--tasks", options.tasks, "accuracy on these items (the folder's tasks.jsonl)")
      ->type_name("FILE");
  add_number(*command, "--limit", &options.limit, "this many windows, and items of each task (all)")->type_name("N");
  add_number(*command, "--window", &options.window, "tokens of a window (the model's length, 2048 at most)")
      ->type_name("TOKENS");
  command
      ->add_option(
          "--against", flags->against,
          "a second configuration and a paired test: an spd file, none (nothing dropped), or what --save wrote")
      ->type_name("FILE");
  add_out_file(*command, "--save", &flags->save, "keep what every window and item gave, for a later --against")
      ->type_name("FILE.json");
  command
      ->add_option_function<std::string>(
          "--activations", [flags](const std::string& name) { flags->options.activations = parse_activations(name); },
          "f32, or bf16 where the processor multiplies that twice as fast (weights of bf16)")
      ->type_name("TYPE")
      ->default_str("f32");
  add_threads_flag(*command, &flags->ranks, "threads of each rank (the cores there are, shared)");
  add_transport_flag(*command, &flags->ranks);
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Perplexity: windows that do not overlap, the first token of each not scored. Intervals are of 95 %.\n"
      "Example:\n  weft eval --model models/weft-16 --ranks 2\n"
      "  weft eval --model models/weft-16 --ranks 4 --spd a.spd --against none --limit 500\n"
      "  weft eval --model DIR --text wiki.test.txt --save plain.json --json\n"
      "  weft eval --model DIR --text wiki.test.txt --ranks 8 --spd a.spd --against plain.json");
  command->callback([=] { *chosen = [flags] { return eval::run(*flags); }; });
}

}  // namespace weft::cli
