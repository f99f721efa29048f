// `weft generate`: tensor-parallel text. The command starts itself again as ranks (or threads); all make the same
// tokens, and rank 0 prints them as they come.
#include "cli/generate/generate.h"

#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/read_rate.h"
#include "weft/io/tensor/npy.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/texts_in_turn.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/shm.h"

#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/ranks.h"
#include "cli/sampling_flags.h"
#include "cli/weights_flag.h"

namespace weft::cli {
namespace generate {
namespace {

void stream(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// Texts as they come, in the order of the prompts: the first one that has not ended streams, those behind it wait.
void stream_texts(Task* task) {
  const bool several = task->prompts.size() > 1;
  auto in_order =
      std::make_shared<TextsInTurn>(task->prompts.size(), [](std::size_t, std::string_view text) { stream(text); });
  for (std::size_t i = 0; i < task->prompts.size(); ++i)
    in_order->add(i, several ? fmt::format("[{}] {}", i, task->prompt_texts[i]) : task->prompt_texts[i]);
  task->generate.on_text = [=](int i, std::string_view text) { in_order->add(num(i), text); };
  task->generate.on_end = [=](int i, Ending) {
    in_order->add(num(i), "\n");
    in_order->end(num(i));
  };
}

void print_tokens(const GenerateResult& result) {
  for (std::size_t i = 0; i < result.texts.size(); ++i)
    fmt::print("[{}] {}\n", i, fmt::join(result.texts[i].tokens, " "));
}

void write_logits(const Flags& flags, const Task& task, const GenerateResult& result) {
  if (flags.logits.empty()) return;
  const std::int64_t vocab = task.source.config.vocab;
  const std::int64_t shape[2] = {std::ssize(result.prompt_logits) / vocab, vocab};
  write_npy(flags.logits, shape, result.prompt_logits.data());
}

void generate_rank(World& world, const Flags& flags) {
  std::int64_t start = now_ns();
  Task task = task_of(flags, world.size(), true);
  const Model model(task.source, world.rank(), world.size(), flags.weights);
  Figures figures{
      .ranks = world.size(),
      .transport = std::string(world.transport()),
      .link = flags.ranks.link == "shm" && world.has_wire() ? std::string(world.transport()) : flags.ranks.link,
      .load_s = seconds_since(start),
      .weight_bytes = model.bytes_per_token()};
  start = now_ns();
  Engine engine(world, model, task.engine);
  engine.set_modes(task.modes);
  figures.compile_s = seconds_since(start);
  const bool speaks = world.rank() == 0, streams = speaks && !flags.json && task.tokenizer != nullptr;
  if (streams) stream_texts(&task);
  std::optional<ReadRate> reads;
  if (flags.bandwidth) {
    reads.emplace(world.threads());
    task.generate.between = [&] { reads->pass(); };
  }
  world.barrier();  // the clock of rank 0 starts when all are there
  const GenerateResult result = weft::generate(engine, task.tokenizer.get(), task.prompts, task.generate);
  figures.traffic = with_all_bytes(world, engine.traffic());
  if (reads) figures.read_bytes_per_s = reads->bytes_per_s();
  if (!speaks) return;
  write_logits(flags, task, result);
  if (flags.json) {
    fmt::print("{}", json_report(flags, task, result, figures));
    return;
  }
  if (task.tokenizer == nullptr) print_tokens(result);
  fmt::print("\n{}", text_report(flags, task, result, figures));
}

int run(Flags flags) {
  complete(&flags);
  check_flags(flags);
  if (flags.ranks.count == 1 && flags.ranks.transport == "shm")
    flags.ranks.transport = "threads";  // one needs no process
  const auto before = [&] {             // what is wrong is said once, before ranks are there
    if (!launched()) check_num_ranks(flags.ranks.count);
    task_of(flags, num_ranks(flags.ranks.count), false);
  };
  const auto body = [&](World& world) {
    generate_rank(world, flags);
    return 0;
  };
  return on_ranks(flags.ranks, body, {.before = before});
}

void add_text_flags(CLI::App& command, Flags* flags) {
  command.add_option("--prompt", flags->prompts, "text to go on with, - for standard input; several times: a batch")
      ->allow_extra_args(false);
  command.add_option("--prompt-ids", flags->prompt_ids, "a prompt as tokens, as 1,15,7")
      ->type_name("IDS")
      ->allow_extra_args(false);
  command.add_option("--prompt-file", flags->prompt_file, "a file that is one prompt; - or <(command): what flows in")
      ->type_name("FILE");
  command
      .add_option("--prompts", flags->prompts_file, "JSON Lines, each with a \"prompt\": a batch; - for standard input")
      ->type_name("FILE");
  add_number(command, "--max-tokens", &flags->options.max_tokens, "tokens to make for each prompt")
      ->capture_default_str();
  add_sampling_flags(command, &flags->options.sampler);
  command.add_option("--stop", flags->options.stops, "a text ends before this; several times: before any")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", flags->ignore_eos, "go on past the end that the model makes");
  add_out_file(command, "--logits", &flags->logits,
               "write the logits of every prompt position, (positions, vocabulary), as a NumPy file")
      ->type_name("FILE.npy");
}

void add_engine_flags(CLI::App& command, Flags* flags) {
  add_ranks_flag(command, &flags->ranks, "local ranks; under mpirun or weft run the ranks are theirs (1)");
  add_threads_flag(command, &flags->ranks, "threads of each rank (the cores there are, shared)");
  add_transport_flag(command, &flags->ranks);
  add_link_flag(command, &flags->ranks);
  add_ranks_per_host_flag(command, &flags->ranks);
  command.add_option("--spd", flags->spd, "an spd file: the mode of every block, and repaired weights")
      ->type_name("FILE");
  command.add_option("--drop", flags->drop, "blocks without the attention's all_reduce: 3,5-7, or 50%, or all")
      ->type_name("BLOCKS");
  command.add_option("--wire", flags->wire, "partial sums between ranks: f32, bf16, int8")->type_name("TYPE");
  command.add_option("--sync", flags->sync, "fused, sequential, panels, or compute (no all_reduce: wrong, the floor)")
      ->type_name("HOW")
      ->capture_default_str();
  add_number(command, "--panels", &flags->panels, "of --sync panels")->capture_default_str();
  add_number(command, "--rows", &flags->rows, "most tokens of prompts in one pass")->capture_default_str();
  command
      .add_option("--activations", flags->activations,
                  "of prompts: f32, or bf16 where the processor multiplies that twice as fast (weights of bf16)")
      ->type_name("TYPE")
      ->capture_default_str();
  add_weights_flag(command, &flags->weights);
  add_trace_flag(command, &flags->ranks);
  command.add_flag("--bandwidth", flags->bandwidth,
                   "between tokens, measure how fast memory is read: the bound of a token's time");
}

}  // namespace
}  // namespace generate

void add_generate(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("generate", "text from a model, its blocks split over ranks");
  auto flags = std::make_shared<generate::Flags>();
  command
      ->add_option("--model", flags->model,
                   "a Hugging Face folder or a GGUF file of one of the families of docs/models.md")
      ->type_name("DIR");
  command->add_option("--random", flags->random, "instead: a config.json, and random weights")->type_name("FILE");
  generate::add_text_flags(*command, flags.get());
  generate::add_engine_flags(*command, flags.get());
  command->add_flag("--json", flags->json, "one JSON object");
  command->footer(
      "Example:\n  weft generate --model models/weft-16 --prompt \"The kernel is\" --ranks 4 --drop 50%\n"
      "  weft generate --random tests/models/llama-1b.json --prompt-ids 1,2,3 --threads 2 --bandwidth\n"
      "  man ls | weft generate --model models/weft-16 --prompt-file - --max-tokens 40");
  command->callback([=] {
    flags->samples = sampling_given(*command);
    *chosen = [flags] { return generate::run(*flags); };
  });
}

}  // namespace weft::cli
