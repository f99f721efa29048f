// Which blocks a distillation drops, repairs and groups, and the files that it ends with.
#pragma once

#include <string>
#include <vector>

#include "weft/io/tensor/safetensors.h"
#include "weft/llm/distill/distill.h"
#include "weft/llm/spd/sensitivity.h"
#include "weft/llm/spd/spd_file.h"

namespace weft {

struct DistillChoiceOptions {
  std::string blocks;                // a list as parse_blocks() takes it; empty: what the spd file drops, or all
  std::string head_groups = "auto";  // auto, none, all or a list
  Thresholds thresholds;  // insensitive blocks stay as they are; extremely sensitive ones get their heads grouped
};

struct DistillChoice {
  Modes modes;  // as the result will run
  std::vector<BlockTask> tasks;
};
// `spd`: modes, and sensitivities where it has them; null: none. Throws bad_input.
DistillChoice choose_blocks(const DistillChoiceOptions& options, std::int64_t num_blocks, const SpdFile* spd);

// Writes repaired.safetensors and the repaired.spd that names it into `folder`.
struct DistillResult {
  const DistillJob& job;
  const DistillChoice& choice;
  const std::vector<DistilledBlock>& blocks;
  int ranks = 1;
  std::vector<double> sensitivity;  // to be kept; may be empty
  StoredDtype dtype = StoredDtype::bf16;
};
void write_distilled(const std::string& folder, const DistillResult& result);

}  // namespace weft
