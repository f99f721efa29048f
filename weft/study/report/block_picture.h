// The before and after of a block's ledger as a timeline, a whole SVG: what every rank did in one typical round,
// sequential above, fused below.
#pragma once

#include <string>

#include "weft/study/ledger/block_ledger.h"

namespace weft {

std::string block_svg(const BlockLedger& ledger);

}  // namespace weft
