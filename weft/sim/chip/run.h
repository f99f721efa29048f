// One plan on one kind of chip: how long it takes, what it moves, and what happened when.
//
//   gemm    CUs claim lanes in the plan's order; each runs its K loop, double-buffered, through the cache, and stores
//   copy    a collective alone: its tiles are in memory already
//   cu      sums and sends are made by CUs, as the plan says: a step adds its sources and stores to its targets; where
//           the producer is a copy, a kernel moves what it can at `kernel_rate`
//   tracker sums are near-memory updates: a step does not wait for its sources but stores its tile as an update, as
//           what arrives does; when the tracker has seen all of them, a DMA engine sends the tile on. A step without
//           sources stores straight to its target. Triggers are DMA commands
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/chip/memory.h"
#include "weft/sim/chip/work.h"

namespace weft::sim {

enum class Mover { cu, tracker };
enum class Output { cached, bypass };  // a producer's own stores: into the cache, or straight to memory

struct RunOptions {
  Mover mover = Mover::cu;
  Policy policy = Policy::fifo;
  Output output = Output::bypass;
  Waits waits = Waits::tile;
  Devices devices = Devices::one;
  bool keep = false;  // the producer alone: its tiles stay here
  int element_bytes = 2;
  double cu_share = 1;  // of the CUs that compute
  double bin_s = 0;     // traffic over time in bins of this length; 0: none
  bool slices = false;  // keep what every CU, the memory and the link did when
};

struct Slice {
  enum class Row : std::uint8_t { cu, memory, link };
  Row row = Row::cu;
  std::int32_t device = 0, number = 0;  // of the CU; memory: of the cause
  std::int32_t lane = 0;                // memory: bytes
  Time begin = 0, end = 0;
};

struct RunResult {
  Time end = 0, producer_end = 0;             // producer_end: the last CU has stored its last tile
  std::array<std::int64_t, kCauses> bytes{};  // of device 0
  std::int64_t link_bytes = 0;                // sent by device 0
  std::int64_t lanes = 0, spills = 0, tracker_peak = 0;
  Time memory_busy = 0, memory_lost = 0;
  int mca_entries = 0;
  std::uint64_t events = 0;
  std::vector<std::array<std::int64_t, kCauses>> bins;
  std::vector<Slice> slices;

  double seconds() const { return to_seconds(end); }
  std::int64_t of(Cause cause) const { return bytes[static_cast<std::size_t>(cause)]; }
};

RunResult simulate(const Plan& plan, const Chip& chip, const RunOptions& options);

// Slices as lines of text, for golden tests: "  1.500 -   2.000 us  cu 0       tile 3".
std::string slices_text(const RunResult& result);
// The same as a timeline, in the format of real runs (weft/base/trace.h).
std::string slices_trace(const RunResult& result, std::string_view name);

}  // namespace weft::sim
