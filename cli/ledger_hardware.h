// The ledger's row for hardware that there is not: what would stay exposed if this machine's memory controllers tracked
// updates and triggered DMA, and added near memory.
#pragma once

#include "cli/ledger_measure.h"

namespace weft::cli {

// Appends the row "track_and_trigger": the predicted floor, and for every product that is summed what the simulator leaves
// exposed on a chip with this cluster's rates, tiles going straight to their owners. No row where a sub-layer exchanges
// otherwise, or where its rows cannot be shared evenly.
void add_simulated_row(Ledger* ledger);

}  // namespace weft::cli
