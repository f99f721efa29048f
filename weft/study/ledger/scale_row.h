// The ledger's line for many ranks: one training step of the whole model as its file says it is trained, simulated.
#pragma once

#include "weft/study/ledger/block_ledger.h"

namespace weft {

// The row "at_scale": the step's time and exposed time with every producer fused, on hosts of eight devices
// (clusters/topologies/rails-128x8, clusters/chips/h200-like) as large as the training is; its note has the ranks and
// the bulk step. No row where the file has no training on several hosts, or a user's own data folder has no such files.
void add_scale_row(BlockLedger* ledger, const Workload& whole);

}  // namespace weft
