// `weft spd distill` in parts: its flags, the choice of blocks, and the words at the end.
#pragma once

#include <string>
#include <vector>

#include "weft/llm/spd/distill.h"
#include "weft/llm/spd/spd_file.h"

namespace weft::cli {

struct DistillFlags {
  std::string model, text, out;
  int tp = 0;
  std::string spd;                   // modes, and sensitivities where it has them
  std::string blocks;                // empty: what the spd file drops, or all
  std::string head_groups = "auto";  // auto, none, all or a list
  double tau1 = 0.05, tau2 = 10;     // classes, as of `weft spd analyze`
  int samples = 0;                   // 0: all of the text
  int window = 0;
  std::string inputs = "sync", dtype = "bf16";
  DistillOptions options;
  bool json = false;
};

// Numbers and ranges, as 0,3-5; or all. Sorted, each once. Throws bad_input naming the flag.
std::vector<int> parse_blocks(const std::string& flag, const std::string& text, int num_blocks);

struct DistillChoice {
  std::vector<BlockMode> modes;  // as the result will run
  std::vector<BlockTask> tasks;
};
// Which blocks are dropped, repaired and grouped. `spd` is null without --spd.
DistillChoice choose_blocks(const DistillFlags& flags, int num_blocks, const SpdFile* spd);

std::string distill_line(const DistilledBlock& block);  // one block, when it is done
// What follows the lines of all blocks.
std::string distill_text(const DistillFlags& flags, const std::vector<DistilledBlock>& blocks, double seconds);
std::string distill_json(const DistillFlags& flags, const std::vector<DistilledBlock>& blocks, double seconds);

}  // namespace weft::cli
