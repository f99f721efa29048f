// The ledger's row for hardware that there is not: what would stay exposed if this machine's memory controllers tracked
// updates and triggered DMA, and added near memory.
#pragma once

#include <optional>
#include <span>

#include "weft/study/sim/case.h"

#include "cli/ledger/measure.h"

namespace weft::cli {

// Appends the row "track_and_trigger": the predicted floor, and for every product that is summed what the simulator
// leaves exposed on a chip with this cluster's rates, tiles going straight to their owners. No row where a sub-layer
// exchanges otherwise, or where its rows cannot be shared evenly.
void add_simulated_row(Ledger* ledger);

// What the simulated chip has from the machine at hand.
struct HardwareRates {
  const Cluster& cluster;
  std::optional<Link> link;  // none: the cluster's own between ranks of a host
  int ranks = 1;
};
// Seconds that stay exposed over all those products, one after another. None where there is no chip's file, or the rows
// of one cannot be shared evenly.
std::optional<double> simulated_exposed_s(std::span<const sim::SimShape> shapes, const HardwareRates& rates);

}  // namespace weft::cli
