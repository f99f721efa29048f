// `weft spd distill`: repairs the blocks that suffer from dropping, for one number of ranks. Local ranks are threads of
// this process and share their activations; under mpirun or `weft run` the ranks are those there are, and rank 0
// writes.
#include <algorithm>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/distill/choice.h"
#include "weft/llm/eval/eval.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/flag_values.h"
#include "cli/interrupt.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/spd/spd.h"

namespace weft::cli::spd {
namespace {

struct DistillFlags {
  std::string model, text, out, spd;
  int tp = 0;
  DistillChoiceOptions choice;
  int samples = 0;  // 0: all of the text
  int window = 0;
  std::string inputs = "chained", dtype = "bf16";
  DistillOptions options;
  bool json = false;
};

void check_flags(const DistillFlags& flags) {
  if (flags.tp < 1 || flags.tp > kMaxLocalRanks) bad_input("--tp is {}; use 1 to {}", flags.tp, kMaxLocalRanks);
  if (flags.tp == 1) bad_input("--tp is 1: one rank has nothing to drop; use 2 or more");
  if (flags.samples < 0)
    bad_input("--samples is {}; use 1 or more, or leave it out for all of the text", flags.samples);
  if (flags.dtype != "f32" && flags.dtype != "bf16") bad_input("--dtype is \"{}\"; use f32 or bf16", flags.dtype);
  if (flags.options.clip < 0) bad_input("--clip is {}; use 0 (off) or more", flags.options.clip);
  if (flags.options.threads < 1) bad_input("--threads is {}; use 1 or more", flags.options.threads);
}

std::optional<SpdFile> read_spd(DistillFlags* flags, const ModelConfig& config) {
  if (flags->spd.empty()) return std::nullopt;
  SpdFile spd = load_spd(flags->spd);
  if (flags->tp == 0) flags->tp = spd.tp;
  check_spd(spd, {flags->model, model_hash(flags->model), flags->tp, static_cast<int>(config.blocks)});
  return spd;
}

std::vector<std::vector<int>> read_samples(const DistillFlags& flags, const ModelConfig& config) {
  const std::vector<int> stream = read_stream(*Tokenizer::load(flags.model), flags.text);
  std::vector<std::vector<int>> samples;
  for (const TokenWindow window : cut_windows(stream, window_length(config, flags.window), flags.samples))
    samples.emplace_back(window.begin(), window.end());
  return samples;
}

std::string distilled_line(const DistilledBlock& b) {
  const double kept = b.loss_before > 0 ? b.loss_after / b.loss_before : 1;
  return fmt::format("block {:3}  loss {:.3e} -> {:.3e}  ({:4.1f} % left){}{}\n", b.block, b.loss_before, b.loss_after,
                     100 * kept, b.grouped ? "  heads grouped" : "", b.resumed ? "  done before" : "");
}

std::string distilled_text(const DistillFlags& flags, const std::vector<DistilledBlock>& blocks, double seconds) {
  const std::string out = fmt::format("{} block{} repaired for {} ranks in {:.0f} s: {}/repaired.spd\n", blocks.size(),
                                      blocks.size() == 1 ? "" : "s", flags.tp, seconds, flags.out);
  return out + fmt::format("Try next: weft eval --model {} --ranks {} --spd {}/repaired.spd --text FILE\n", flags.model,
                           flags.tp, flags.out);
}

std::string distilled_json(const DistillFlags& flags, const std::vector<DistilledBlock>& blocks, double seconds) {
  nlohmann::ordered_json out{{"model", flags.model},
                             {"tp", flags.tp},
                             {"spd", flags.out + "/repaired.spd"},
                             {"inputs", flags.inputs},
                             {"epochs", flags.options.epochs},
                             {"lr", flags.options.lr},
                             {"batch", flags.options.batch},
                             {"samples", flags.samples},
                             {"seed", flags.options.seed},
                             {"dtype", flags.dtype},
                             {"seconds", seconds}};
  for (const DistilledBlock& b : blocks)
    out["blocks"].push_back({{"index", b.block},
                             {"loss_before", b.loss_before},
                             {"loss_after", b.loss_after},
                             {"grouped", b.grouped},
                             {"resumed", b.resumed},
                             {"seconds", b.seconds}});
  return json_line(out);
}

void show(Progress& progress, const DistillFlags& flags, const DistillProgress& at) {
  if (at.finished != nullptr) {
    progress.show("");
    if (!flags.json) fmt::print("{}", distilled_line(*at.finished));
    std::fflush(stdout);
    return;
  }
  progress.show(fmt::format("block {} ({} of {})  epoch {} of {}  loss {:.3e}, before {:.3e}  {} left", at.block,
                            at.done + 1, at.of, at.epoch, at.epochs, at.loss, at.loss_before,
                            time_text(at.seconds_left)));
}

int run(DistillFlags flags) {
  const std::int64_t start = now_ns();
  const ModelSource model = open_model(flags.model);
  flags.tp = num_ranks(flags.tp);
  const std::optional<SpdFile> spd = read_spd(&flags, model.config);
  if (flags.options.threads == 0) flags.options.threads = threads_sharing_cores(flags.tp);
  check_flags(flags);
  flags.options.inputs = parse_distill_inputs(flags.inputs);
  const DistillChoice choice = choose_blocks(flags.choice, model.config.blocks, spd ? &*spd : nullptr);
  DistillJob job{.model = model, .tasks = choice.tasks, .options = flags.options, .folder = flags.out + "/state"};
  job.samples = read_samples(flags, model.config);
  flags.samples = int_size(job.samples);
  job.about = model_hash(flags.model);
  const bool speaks = !launched() || launched_rank() == 0;
  if (speaks) make_out_folder(job.folder);
  Progress progress(speaks ? Progress::Who::speaks : Progress::Who::is_silent);
  std::vector<DistilledBlock> blocks;
  const SayWhenInterrupted say(
      speaks
          ? fmt::format("weft: interrupted; blocks that are done are kept in {}: the same command goes on from there\n",
                        flags.out)
          : "");
  std::optional<SharedActivations> shared;  // of ranks that are threads of this process
  if (!launched()) shared.emplace(job, flags.tp);
  const auto body = [&](World& world) {
    const auto tell = [&](const DistillProgress& at) { show(progress, flags, at); };
    auto done = distill(world, job, shared ? &*shared : nullptr, tell);
    if (world.rank() == 0) blocks = std::move(done);
    return 0;
  };
  on_ranks({.count = flags.tp, .threads = 0, .transport = "threads"}, body);
  if (!speaks) return 0;
  write_distilled(flags.out, {job, choice, blocks, flags.tp, spd ? spd->sensitivity : std::vector<double>{},
                              flags.dtype == "bf16" ? StoredDtype::bf16 : StoredDtype::f32});
  const double seconds = seconds_since(start);
  progress.show("");
  fmt::print("{}", flags.json ? distilled_json(flags, blocks, seconds) : distilled_text(flags, blocks, seconds));
  return 0;
}

void add_choices(CLI::App& command, DistillFlags* flags) {
  command.add_option("--model", flags->model, "a Hugging Face folder")->type_name("DIR")->required();
  add_number(command, "--tp", &flags->tp, "ranks it is for; repaired weights fit no other number (that of --spd)")
      ->type_name("N");
  command.add_option("--text", flags->text, "calibration text, not the text to measure on")
      ->type_name("FILE")
      ->required();
  command.add_option("--out", flags->out, "folder for repaired.spd, repaired.safetensors and the state to go on from")
      ->type_name("DIR")
      ->required();
  command.add_option("--spd", flags->spd, "modes to start from, as `weft spd analyze --out` writes them")
      ->type_name("FILE");
  command
      .add_option("--blocks", flags->choice.blocks, "blocks to drop and repair, as 0,3-5 (those --spd drops, or all)")
      ->type_name("LIST");
  command
      .add_option("--head-groups", flags->choice.head_groups,
                  "blocks whose heads are grouped: auto (extremely sensitive ones, or without sensitivities where it "
                  "lowers the loss), none, all, or a list")
      ->type_name("LIST");
  add_number(command, "--tau1", &flags->choice.thresholds.tau1, "S up to this is insensitive and stays as it is (0.05)")
      ->type_name("S");
  add_number(command, "--tau2", &flags->choice.thresholds.tau2, "S above this is extremely sensitive (10)")
      ->type_name("S");
}

void add_training(CLI::App& command, DistillFlags* flags) {
  DistillOptions& options = flags->options;
  add_number(command, "--samples", &flags->samples, "windows of the text to use (all)")->type_name("N");
  add_number(command, "--window", &flags->window, "tokens of a sample (the model's length, 2048 at most)")
      ->type_name("TOKENS");
  add_number(command, "--epochs", &options.epochs, fmt::format("times over the samples ({})", options.epochs))
      ->type_name("E");
  add_number(command, "--lr", &options.lr, fmt::format("learning rate at its peak ({})", options.lr))
      ->type_name("RATE");
  add_number(command, "--batch", &options.batch, "samples per step (1)")->type_name("B");
  add_number(command, "--weight-decay", &options.weight_decay, "of AdamW (0)")->type_name("D");
  add_number(command, "--clip", &options.clip, "largest norm of a step's gradients (1; 0: any)")->type_name("NORM");
  command
      .add_option("--inputs", flags->inputs,
                  "what enters a block in training: sync (through original blocks, as the paper), dropped (through "
                  "repaired ones), chained (through repaired ones, and the target is the original model's) (chained)")
      ->type_name("HOW");
  command.add_option("--dtype", flags->dtype, "of the repaired weights: f32 or bf16 (bf16)")->type_name("TYPE");
  add_number(command, "--seed", &options.seed, "order of the samples (1)")->type_name("S");
  add_number(command, "--threads", &options.threads, "threads of each rank (the cores there are, shared)", 1)
      ->type_name("T");
  command.add_flag("--json", flags->json, "one JSON object on standard output");
}

}  // namespace

void add_distill(CLI::App& group, Run* chosen) {
  auto* command = group.add_subcommand("distill", "repair the blocks that suffer from dropping, on calibration text");
  auto flags = std::make_shared<DistillFlags>();
  flags->options.threads = 0;
  add_choices(*command, flags.get());
  add_training(*command, flags.get());
  command->footer(
      "A dropped block is trained to give what the synchronised block gives. Every block that is done is kept in\n"
      "--out; the same command goes on from there after an interruption, and ends with the same bytes.\n"
      "Example:\n"
      "  weft spd distill --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --out w16-tp4\n"
      "  weft eval --model models/weft-16 --ranks 4 --spd w16-tp4/repaired.spd --text models/weft-16/heldout.txt");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli::spd
