// `weft spd`: the group of commands that find out which synchronisations a model can spare, and repair the blocks that
// suffer. Its help alone is to be enough to go from a model folder to a faster one.
#include "cli/spd.h"

#include <CLI/CLI.hpp>

namespace weft::cli {
namespace {

constexpr const char* kHelp =
    "From a model folder to a faster one, at 4 ranks over 1 Gbit/s (the docs are in docs/spd.md):\n"
    "  1  weft eval --model DIR --ranks 4 --text heldout.txt\n"
    "     what the model can do: perplexity, and with --tasks FILE.jsonl accuracy\n"
    "  2  weft spd analyze --model DIR --tp 4 --text calibration.txt --link 1gbit,20us --max-loss 1% --out a.spd\n"
    "     how much each block suffers without its first all-reduce, and the fastest set of modes within the bound\n"
    "  3  weft spd distill --model DIR --spd a.spd --text calibration.txt --out b.spd\n"
    "     repairs the blocks that suffer, so that more of them can be dropped\n"
    "  4  weft generate --model DIR --ranks 4 --spd b.spd --link 1gbit,20us --prompt \"...\"\n"
    "     generates with it; weft eval --spd b.spd --against none says what it costs, with a paired test\n"
    "An spd file holds the mode of every block (sync, bf16, int8, drop, drop+bf16, drop+int8), the number of ranks it "
    "is\n"
    "for, the model's hash, and where its repaired weights are. Every command takes --json and --help.";

}  // namespace

void add_spd(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("spd", "which synchronisations a model can spare, and repairing what suffers");
  add_spd_predict(*command, chosen);
  command->require_subcommand(1);
  command->footer(kHelp);
  add_spd_analyze(*command, chosen);
  add_spd_ablate(*command, chosen);
}

}  // namespace weft::cli
