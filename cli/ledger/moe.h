// What the two halves of a mixture-of-experts block share.
#pragma once

#include <functional>
#include <string>

#include "cli/ledger/block.h"

namespace weft::cli {

struct MoeRooms {
  float *x, *h, *qkv, *attended, *middle, *y;
};

// A product of this rank's own tokens, with nothing to exchange; x() is called in the stage, before it.
Part& add_own_tokens(Block& block, const std::string& name, const std::function<const float*()>& x);

// Attention split by heads or by tokens, as the workload says; ends with its output added to x, in `middle`.
void add_moe_attention(Block& block, MoeRooms& at);

}  // namespace weft::cli
