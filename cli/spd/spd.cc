// `weft spd`: the group of commands that find out which synchronisations a model can spare, and repair the blocks that
// suffer. Its help alone is to be enough to go from a model folder to a faster one.
#include "cli/spd/spd.h"

#include <CLI/CLI.hpp>

namespace weft::cli {
namespace {

constexpr const char* kHelp =
    "From a model folder to a faster one, for 4 ranks joined by 1 Gbit/s (docs/spd.md says more):\n"
    "  1  weft spd analyze --model DIR --tp 4 --text calibration.txt --drop all --out all.spd\n"
    "     how much each block suffers without its first all-reduce; all.spd drops every block\n"
    "  2  weft spd distill --model DIR --spd all.spd --text calibration.txt --out repaired\n"
    "     repairs the blocks that suffer; `weft spd centre` helps them in a minute, without training\n"
    "  3  weft spd analyze --model DIR --tp 4 --spd repaired/repaired.spd --text calibration.txt \\\n"
    "         --heldout heldout.txt --link 1gbit,20us --max-loss 1% --out fast.spd\n"
    "     the fastest mode of every block that loses at most 1 % on held-out text\n"
    "  4  weft generate --model DIR --ranks 4 --spd fast.spd --link 1gbit,20us --prompt \"...\"\n"
    "     uses it; weft eval --model DIR --ranks 4 --spd fast.spd --against none says what it costs, in pairs\n"
    "An spd file holds the mode of every block (sync, bf16, int8, drop, drop+bf16, drop+int8), the number of ranks it "
    "is\n"
    "for, the model's hash, and where its repaired weights are. models/weft-16 has a model, calibration.txt, "
    "heldout.txt\n"
    "and tasks.jsonl to try it on. Every command takes --json and --help.\n\n"
    "Example:\n  weft spd analyze --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --samples 8";

}  // namespace

void add_spd(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("spd", "which synchronisations a model can spare, and repairing what suffers");
  command->require_subcommand(1);
  command->footer(kHelp);
  spd::add_analyze(*command, chosen);
  spd::add_ablate(*command, chosen);
  spd::add_centre(*command, chosen);
  spd::add_distill(*command, chosen);
  spd::add_predict(*command, chosen);
}

}  // namespace weft::cli
