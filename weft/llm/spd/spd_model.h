// A model as an spd file changes it: repaired weights in place of the model's own, in the blocks that are dropped. A
// block that keeps both synchronisations has the model's own weights, even where the file has repaired ones: so one
// file of repaired weights serves every choice of blocks to drop.
#pragma once

#include <string>
#include <vector>

#include "weft/llm/model/model.h"
#include "weft/llm/spd/spd_file.h"

namespace weft {

// Checks the file against the folder and the number of ranks (check_spd), and opens its weights. Not
// check_spd_weights(): that reads all of them, and is for whoever starts the ranks.
ModelSource open_model(const std::string& folder, const SpdFile& spd, int ranks);

// The model with the spd file's weights for the blocks where `used` is true.
ModelSource repaired_model(const ModelSource& source, const SpdFile& spd, const std::vector<bool>& used);

// The model with a bias of q, k, v and the output projection in every block, if `repaired` brings one that the model
// has not: zero where neither has it. Else the model as it is.
ModelSource with_all_biases(ModelSource source);

// Blocks for which the spd file has repaired weights, whether they are dropped or not.
std::vector<bool> repaired_blocks(const SpdFile& spd, const ModelConfig& config);

}  // namespace weft
