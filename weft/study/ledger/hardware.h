// The ledger's row for hardware that does not exist: what would stay exposed if this machine's memory controllers
// tracked updates and triggered DMA, and added near memory.
#pragma once

#include <optional>
#include <span>

#include "weft/study/ledger/block_ledger.h"
#include "weft/study/sim/case.h"

namespace weft {

// The row "track_and_trigger": the predicted floor, and what the simulator leaves exposed of those products on a chip
// with the table's rates, tiles going straight to their owners; each of them `times` times, one after another. None
// where there is no chip's file, or where the rows of a product cannot be shared evenly.
std::optional<LedgerRow> simulated_row(const LedgerTable& table, std::span<const sim::SimShape> shapes, double times);

// Appends that row for every product of the block that is summed. None where a sub-layer exchanges otherwise.
void add_simulated_row(BlockLedger* ledger);

}  // namespace weft
