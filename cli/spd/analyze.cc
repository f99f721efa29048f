// `weft spd analyze`: flags, refusals, and who does what. Local ranks are threads of this process; under mpirun the
// ranks and the link are those there are.
#include "cli/spd/analyze.h"

#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/os/new_file.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/study/spd/drop_curve.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/rank_flags.h"
#include "cli/spd/spd.h"

namespace weft::cli::spd {
namespace {

bool paced(const AnalyzeFlags& flags) { return !flags.link.empty() && flags.link != "shm"; }

double parse_loss(const std::string& text) {
  char* end = nullptr;
  double loss = std::strtod(text.c_str(), &end);
  std::string_view rest(end);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest == "%") loss /= 100, rest = {};
  if (text.empty() || !rest.empty() || !(loss >= 0 && loss < 1))
    bad_input("--max-loss is \"{}\"; give a share below one, as 1% or 0.01", text);
  return loss;
}

void check_flags(const AnalyzeFlags& flags) {
  if (flags.tp < 1 || flags.tp > kMaxLocalRanks) bad_input("--tp is {}; use 1 to {}", flags.tp, kMaxLocalRanks);
  if (flags.options.samples < 1) bad_input("--samples is {}; use 1 or more", flags.options.samples);
  if (flags.times.rounds < 1) bad_input("--rounds is {}; use 1 or more", flags.times.rounds);
  if (flags.times.rows < 1) bad_input("--prompt is {}; use 1 or more", flags.times.rows);
  if (flags.options.most_measurements < 1)
    bad_input("--measurements is {}; use 1 or more", flags.options.most_measurements);
  if (!(flags.thresholds.tau1 <= flags.thresholds.tau2))
    bad_input("--tau1 is {} and --tau2 {}; the first is the smaller", flags.thresholds.tau1, flags.thresholds.tau2);
  if (paced(flags)) {
    parse_link(flags.link);
    if (launched()) bad_input("--link {} is for local ranks; under mpirun the link is the one there is", flags.link);
  }
  parse_modes(flags.modes);
  if (!flags.max_loss.empty() && !flags.drop.empty())
    bad_input("--max-loss chooses the blocks and --drop names their number; leave one out");
  if (!flags.out.empty() && flags.max_loss.empty() && flags.drop.empty())
    bad_input("--out {} needs to know which blocks to drop; give --max-loss 1% or --drop isb", flags.out);
}

SpdFile file_of(const AnalyzeFlags& flags, const AnalysisInputs& inputs, const Analyzed& found) {
  SpdFile spd;
  if (inputs.spd) spd = *inputs.spd;
  if (!spd.weights.empty()) spd.weights = weights_beside(flags.out, *inputs.spd);
  spd.model = model_hash(flags.options.model);
  spd.tp = flags.tp;
  spd.sensitivity = found.sensitivity.s;
  if (found.chosen) {
    spd.blocks = found.chosen->modes;
    spd.why = fmt::format("weft spd analyze --max-loss {} on {} windows, {} held out: {:+.2f} % perplexity there",
                          flags.max_loss, found.calibration_windows, found.heldout_windows,
                          100 * found.chosen->held_out.loss.loss);
  } else {
    spd.blocks = dropped_by_class(flags.drop, found, flags.thresholds, "--drop");
    spd.why = fmt::format("weft spd analyze --drop {} on {} windows", flags.drop, found.calibration_windows);
  }
  return spd;
}

int run(AnalyzeFlags flags) {
  flags.tp = num_ranks(flags.tp);
  if (flags.threads == 0) flags.threads = threads_sharing_cores(flags.tp);
  take_texts_of_folder(&flags.options);
  check_flags(flags);
  if (!flags.max_loss.empty()) flags.options.max_loss = parse_loss(flags.max_loss);
  const std::int64_t start = now_ns();
  const AnalysisInputs inputs = read_analysis_inputs(flags.options, load_config(flags.options.model));
  if (inputs.spd) {
    open_model(flags.options.model, *inputs.spd, flags.tp);
    if (!launched()) check_spd_weights(*inputs.spd);
    if (!flags.out.empty() && !inputs.spd->weights.empty()) weights_beside(flags.out, *inputs.spd);
  }
  TimedAnalysisOptions options{flags.options, flags.times, parse_modes(flags.modes), flags.tp, flags.threads};
  if (paced(flags)) options.link = parse_link(flags.link);
  std::optional<World> joined;
  if (launched()) joined.emplace(World::init(0, nullptr, {.threads = flags.threads}));
  const bool prints = !joined || joined->rank() == 0;
  Progress progress(prints ? Progress::Who::speaks : Progress::Who::is_silent);
  const EvalProgress show = [&](std::string_view what, std::int64_t done, std::int64_t of) {
    of > 0 ? progress.show(what, done, of, "windows") : progress.show(what);
  };
  Analyzed found{analyze_timed(joined ? &*joined : nullptr, options, inputs, show)};
  found.seconds = seconds_since(start);
  if (!prints) return 0;
  if (!flags.out.empty()) save_spd(file_of(flags, inputs, found), flags.out);
  if (!flags.svg.empty()) write_file(flags.svg, drop_curve_svg(flags.options, flags.tp, found));
  progress.show("");
  fmt::print("{}", flags.json ? analyze_json(flags, found) : analyze_text(flags, found));
  return 0;
}

void add_flags(CLI::App& command, AnalyzeFlags* flags) {
  AnalysisOptions& options = flags->options;
  command.add_option("--model", options.model, "a Hugging Face folder")->type_name("DIR")->required();
  add_number(command, "--tp", &flags->tp, "tensor-parallel ranks it is for")->type_name("N")->required();
  command
      .add_option("--text", options.text,
                  "calibration text (the folder's calibration.txt); its second half is held out without --heldout")
      ->type_name("FILE");
  command.add_option("--heldout", options.heldout, "text to check the bound on")->type_name("FILE");
  command.add_option("--tasks", options.tasks, "items whose accuracy the bound is for, too")->type_name("FILE.jsonl");
  add_number(command, "--limit", &options.limit, "items of each task (all)")->type_name("N");
  add_number(command, "--samples", &options.samples, "windows of each text (128)")->type_name("N");
  add_number(command, "--window", &options.window, "tokens of a window (the model's length, 2048 at most)")
      ->type_name("TOKENS");
  command.add_option("--spd", options.spd, "repaired weights to choose with, as `weft spd distill` writes them")
      ->type_name("FILE");
  command
      .add_option("--max-loss", flags->max_loss,
                  "choose the fastest modes that lose at most this much perplexity (and accuracy), as 1%")
      ->type_name("LOSS");
  command.add_option("--drop", flags->drop, "for --out: drop the N least sensitive blocks, isb, or all")
      ->type_name("N");
  command.add_option("--modes", flags->modes, "modes to choose among beside sync (int8,drop,drop+int8)")
      ->type_name("LIST");
  command
      .add_option("--link", flags->link, "what the modes are timed on: shm (memory), or RATE[,LATENCY], as 1gbit,20us")
      ->type_name("LINK");
  add_number(command, "--prompt", &flags->times.rows, "rows of the forward that is timed (512)")->type_name("TOKENS");
  add_number(command, "--rounds", &flags->times.rounds, "rounds of timing (5)")->type_name("K");
  add_number(command, "--measurements", &options.most_measurements, "evaluations the search may take (40)")
      ->type_name("K");
  add_number(command, "--tau1", &flags->thresholds.tau1, "S up to this is insensitive, ISB (0.05)")->type_name("S");
  add_number(command, "--tau2", &flags->thresholds.tau2, "S up to this is sensitive, SB; above, ESB (10)")
      ->type_name("S");
  add_out_file(command, "--out", &flags->out, "write the choice as an spd file")->type_name("FILE.spd");
  add_out_file(command, "--svg", &flags->svg, "draw perplexity over blocks dropped");
  command.add_flag("--no-curve", flags->no_curve, "leave out perplexity over blocks dropped, half of the work");
  command.add_flag("--quick", flags->quick, "a first look: 8 windows of 256 tokens, no curve, a search of 12");
  add_number(command, "--threads", &flags->threads, "threads of each rank (the cores there are, shared)", 1)
      ->type_name("T");
  command.add_flag("--json", flags->json, "one JSON object on standard output");
}

}  // namespace

void add_analyze(CLI::App& group, Run* chosen) {
  auto* command =
      group.add_subcommand("analyze", "how much each block suffers when dropped; the fastest modes in a bound");
  auto flags = std::make_shared<AnalyzeFlags>();
  add_flags(*command, flags.get());
  command->footer(
      "S of a block: perplexity with it and all later blocks dropped, less that with the later ones alone.\n"
      "Example:\n"
      "  weft spd analyze --model models/weft-16 --tp 4 --quick --max-loss 1%\n"
      "  weft spd analyze --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --samples 16\n"
      "  weft spd analyze --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --samples 32 \\\n"
      "      --heldout models/weft-16/heldout.txt --link 1gbit,20us --max-loss 1% --out fast.spd");
  command->callback([=] {
    // What is named beside --quick holds.
    AnalysisOptions quick = flags->options;
    make_quick(&quick);
    AnalysisOptions& options = flags->options;
    if (flags->quick && command->count("--samples") == 0) options.samples = quick.samples;
    if (flags->quick && command->count("--window") == 0) options.window = quick.window;
    if (flags->quick && command->count("--measurements") == 0) options.most_measurements = quick.most_measurements;
    options.curve = flags->quick ? quick.curve : !flags->no_curve;
    *chosen = [flags] { return run(*flags); };
  });
}

}  // namespace weft::cli::spd
