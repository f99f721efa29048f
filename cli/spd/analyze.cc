// `weft spd analyze`: flags, refusals, and who does what. Local ranks are threads of this process, in a world without a
// link for what is computed and in a paced one for what is timed; under mpirun the ranks and the link are those there are.
#include "cli/spd/analyze.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/llm/spd/spd_model.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/local/shm.h"
#include "weft/world/world.h"

#include "cli/progress.h"
#include "cli/spd/spd.h"

namespace weft::cli {
namespace {

bool paced(const AnalyzeFlags& flags) { return !flags.link.empty() && flags.link != "shm"; }

// One kind of world after another for the same ranks.
class Worlds {
 public:
  explicit Worlds(const AnalyzeFlags& flags) : flags_(flags) {
    if (launched()) joined_.emplace(World::init(0, nullptr, options(false)));
  }

  bool prints() const { return !joined_ || joined_->rank() == 0; }

  void run(bool timed, const std::function<void(World&)>& body) {
    if (joined_)
      body(*joined_);
    else
      World::local(flags_.tp, body, options(timed));
  }

 private:
  WorldOptions options(bool timed) const {
    WorldOptions options;
    options.threads = flags_.threads;
    if (timed && paced(flags_)) options.link = parse_link(flags_.link);
    return options;
  }

  const AnalyzeFlags& flags_;
  std::optional<World> joined_;
};

void check_flags(const AnalyzeFlags& flags) {
  if (flags.tp < 1 || flags.tp > kMaxLocalRanks) bad_input("--tp is {}; use 1 to {}", flags.tp, kMaxLocalRanks);
  if (flags.samples < 1) bad_input("--samples is {}; use 1 or more", flags.samples);
  if (flags.rounds < 1) bad_input("--rounds is {}; use 1 or more", flags.rounds);
  if (flags.prompt < 1) bad_input("--prompt is {}; use 1 or more", flags.prompt);
  if (flags.measurements < 1) bad_input("--measurements is {}; use 1 or more", flags.measurements);
  if (!(flags.tau1 <= flags.tau2))
    bad_input("--tau1 is {} and --tau2 {}; the first is the smaller", flags.tau1, flags.tau2);
  if (paced(flags)) {
    parse_link(flags.link);
    if (launched()) bad_input("--link {} is for local ranks; under mpirun the link is the one there is", flags.link);
  }
  parse_modes(flags.modes);
  if (!flags.max_loss.empty()) parse_loss(flags.max_loss);
  if (!flags.max_loss.empty() && !flags.drop.empty())
    bad_input("--max-loss chooses the blocks and --drop names their number; leave one out");
  if (!flags.out.empty() && flags.max_loss.empty() && flags.drop.empty())
    bad_input("--out {} needs to know which blocks to drop; give --max-loss 1% or --drop isb", flags.out);
}

// The file for --drop: the least sensitive blocks, by number, all, or the insensitive ones.
Modes dropped_by_flag(const AnalyzeFlags& flags, const Analyzed& found) {
  const auto blocks = std::ssize(found.order);
  std::int64_t count = 0;
  if (flags.drop == "all") {
    count = blocks;
  } else if (flags.drop == "isb") {
    for (const double s : found.sensitivity.s) count += class_of(s, {flags.tau1, flags.tau2}) == BlockClass::isb;
  } else {
    char* end = nullptr;
    count = std::strtol(flags.drop.c_str(), &end, 10);
    if (*end != '\0' || count < 0 || count > blocks)
      bad_input("--drop is \"{}\"; use a number from 0 to {}, isb or all", flags.drop, blocks);
  }
  return dropped_in_order(found.order)[static_cast<std::size_t>(count)];
}

// The weights of --spd as a path from the folder of --out, which spd files may name only downwards.
std::string weights_from(const std::string& out, const SpdFile& spd) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(out).parent_path();
  const fs::path weights =
      fs::absolute(spd.weights_path()).lexically_normal().lexically_relative(folder.lexically_normal());
  if (weights.empty() || *weights.begin() == "..")
    bad_input("--out {}: the weights of {} must lie beside it or below; write it into {}", out, spd.path,
              fs::absolute(spd.weights_path()).parent_path().string());
  return weights.string();
}

SpdFile file_of(const AnalyzeFlags& flags, const AnalyzeInputs& inputs, const Analyzed& found) {
  SpdFile spd;
  if (inputs.spd) spd = *inputs.spd;
  if (!spd.weights.empty()) spd.weights = weights_from(flags.out, *inputs.spd);
  spd.model = model_hash(flags.model);
  spd.tp = flags.tp;
  spd.sensitivity = found.sensitivity.s;
  if (found.chosen) {
    spd.blocks = found.chosen->modes;
    spd.why = fmt::format("weft spd analyze --max-loss {} on {} windows, {} held out: {:+.2f} % perplexity there",
                          flags.max_loss, found.calibration_windows, found.heldout_windows,
                          100 * found.chosen->held_out.loss.loss);
  } else {
    spd.blocks = dropped_by_flag(flags, found);
    spd.why = fmt::format("weft spd analyze --drop {} on {} windows", flags.drop, found.calibration_windows);
  }
  return spd;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) bad_input("cannot write {}; is its folder there?", path);
}

// What is timed, in a world of its own where ranks are local.
void in_timed_world(Worlds& worlds, const AnalyzeFlags& flags, const std::function<void(World&, const Model&)>& body) {
  worlds.run(true, [&](World& world) {
    const Model model(open_model(flags.model), world.rank(), world.size());
    body(world, model);
  });
}

// Times, sensitivity, choice and its time. All ranks of mpirun end with the same; of local ones the first one's is kept.
Analyzed find(Worlds& worlds, const AnalyzeFlags& flags, const AnalyzeInputs& inputs, Progress& progress) {
  const auto keeps = [](const World& world) { return world.rank() == 0 || launched(); };
  std::vector<ModeTime> times;
  if (!flags.max_loss.empty()) {
    progress.show("timing the modes");
    const std::vector<BlockMode> modes = parse_modes(flags.modes);
    in_timed_world(worlds, flags, [&](World& world, const Model& model) {
      auto measured = measure_modes(world, model, flags, modes);
      if (keeps(world)) times = std::move(measured);
    });
  }
  Analyzed found;
  worlds.run(false, [&](World& world) {
    const EvalProgress show = [&](std::string_view what, std::int64_t done, std::int64_t of) {
      if (world.rank() == 0) progress.show(what, static_cast<int>(done), static_cast<int>(of));
    };
    Analyzed analyzed = analyze(world, flags, inputs, times, show);
    if (keeps(world)) found = std::move(analyzed);
  });
  if (!found.chosen) return found;
  progress.show("timing the choice");
  in_timed_world(worlds, flags, [&](World& world, const Model& model) {
    const ChoiceTime time = measure_choice(world, model, flags, found.chosen->modes);
    if (keeps(world)) found.chosen->time = time;
  });
  return found;
}

int run(AnalyzeFlags flags) {
  if (launched()) flags.tp = launched_size();
  if (flags.threads == 0) flags.threads = std::max(1, static_cast<int>(std::floor(usable_cores() / flags.tp)));
  check_flags(flags);
  const std::int64_t start = now_ns();
  const AnalyzeInputs inputs = read_analyze_inputs(flags, load_config(flags.model));
  if (inputs.spd) {
    open_model(flags.model, *inputs.spd, flags.tp);
    if (!launched()) check_spd_weights(*inputs.spd);
    if (!flags.out.empty() && !inputs.spd->weights.empty()) weights_from(flags.out, *inputs.spd);
  }
  Worlds worlds(flags);
  Progress progress(worlds.prints() ? Progress::Who::speaks : Progress::Who::is_silent);
  Analyzed found = find(worlds, flags, inputs, progress);
  found.seconds = static_cast<double>(now_ns() - start) * 1e-9;
  if (!worlds.prints()) return 0;
  if (!flags.out.empty()) save_spd(file_of(flags, inputs, found), flags.out);
  if (!flags.svg.empty()) write_text(flags.svg, analyze_svg(flags, found));
  progress.show("");
  fmt::print("{}", flags.json ? analyze_json(flags, found) : analyze_text(flags, found));
  return 0;
}

void add_flags(CLI::App& command, AnalyzeFlags* flags) {
  command.add_option("--model", flags->model, "a Hugging Face folder")->type_name("DIR")->required();
  command.add_option("--tp", flags->tp, "tensor-parallel ranks it is for")->type_name("N")->required();
  command.add_option("--text", flags->text, "calibration text; its second half is held out without --heldout")
      ->type_name("FILE")
      ->required();
  command.add_option("--heldout", flags->heldout, "text to check the bound on")->type_name("FILE");
  command.add_option("--tasks", flags->tasks, "items whose accuracy the bound is for, too")->type_name("FILE.jsonl");
  command.add_option("--limit", flags->limit, "items of each task (all)")->type_name("N");
  command.add_option("--samples", flags->samples, "windows of each text (128)")->type_name("N");
  command.add_option("--window", flags->window, "tokens of a window (the model's length, 2048 at most)")
      ->type_name("TOKENS");
  command.add_option("--spd", flags->spd, "repaired weights to choose with, as `weft spd distill` writes them")
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
  command.add_option("--prompt", flags->prompt, "rows of the forward that is timed (512)")->type_name("TOKENS");
  command.add_option("--rounds", flags->rounds, "rounds of timing (5)")->type_name("K");
  command.add_option("--measurements", flags->measurements, "evaluations the search may take (40)")->type_name("K");
  command.add_option("--tau1", flags->tau1, "S up to this is insensitive, ISB (0.05)")->type_name("S");
  command.add_option("--tau2", flags->tau2, "S up to this is sensitive, SB; above, ESB (10)")->type_name("S");
  command.add_option("--out", flags->out, "write the choice as an spd file")->type_name("FILE.spd");
  command.add_option("--svg", flags->svg, "draw perplexity over blocks dropped")->type_name("FILE");
  command.add_flag("--no-curve", flags->no_curve, "leave out perplexity over blocks dropped, half of the work");
  command.add_option("--threads", flags->threads, "threads of each rank (the cores there are, shared)")->type_name("T");
  command.add_flag("--json", flags->json, "one JSON object on standard output");
}

}  // namespace

std::vector<BlockMode> parse_modes(const std::string& text) {
  std::vector<BlockMode> modes;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const BlockMode mode = parse_block_mode(text.substr(at, comma - at));
    if (mode != BlockMode{} && std::find(modes.begin(), modes.end(), mode) == modes.end()) modes.push_back(mode);
    at = comma + 1;
  }
  return modes;
}

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

void add_spd_analyze(CLI::App& spd, Run* chosen) {
  auto* command =
      spd.add_subcommand("analyze", "how much each block suffers when dropped; the fastest modes in a bound");
  auto flags = std::make_shared<AnalyzeFlags>();
  add_flags(*command, flags.get());
  command->footer(
      "S of a block: perplexity with it and all later blocks dropped, less that with the later ones alone.\n"
      "Example:\n"
      "  weft spd analyze --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --samples 16\n"
      "  weft spd analyze --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --samples 32 \\\n"
      "      --heldout models/weft-16/heldout.txt --link 1gbit,20us --max-loss 1% --out fast.spd");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli
