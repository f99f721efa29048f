// A chip as data: compute units, cache, memory, links, DMA engines, tracker. The files are in clusters/chips/; each
// number there stands beside its source or the word "assumed", and a number without one is refused. Those marked "free"
// are the model's free parameters: docs/simulator.md lists them, and `weft sim t3 --sensitivity` moves each by 20 %.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

// MCA: from this memory intensity of the first stage on, communication issues below so many entries of the DRAM queue.
struct McaStep {
  double intensity = 0;
  int entries = 0;
  friend bool operator==(const McaStep&, const McaStep&) = default;
};

inline constexpr int kMaxPrefetch = 15;

struct Chip {
  std::string name, source;

  int cus = 0;
  double clock_hz = 0;
  double flops_per_cycle = 0;  // of one CU at the workload's dtype
  double gemm_efficiency = 0;  // of a CU's peak that the inner loop reaches with its operands at hand
  std::int64_t tile_rows = 0, tile_cols = 0, tile_k = 0;
  int prefetch_slices = 1;       // of K that a workgroup has asked for beside the one it multiplies
  std::int64_t raster_cols = 0;  // tiles of a chunk are claimed in groups of so many columns, row by row; 0: whole rows
  int wavefronts = 1;            // of a workgroup, each with its part of the tile and its own tracker entry

  std::int64_t llc_bytes = 0;
  int llc_ways = 1;
  double llc_latency_s = 0;

  double dram_bytes_per_s = 0;
  double dram_latency_s = 0;          // from the end of a read's service to its data being there
  std::int64_t burst_bytes = 0;       // what is served in one go
  std::int64_t dram_entry_bytes = 0;  // of the queue before the banks, which has
  int dram_entries = 0;               // so many
  double turnaround_s = 0;            // between reads and writes
  double stream_switch_s = 0;         // between compute and communication: other rows, other banks
  double update_factor = 1;           // time of a near-memory update for that of a write

  std::int64_t grant_bytes = 0;  // round robin: what a stream may issue before the other's turn
  double starvation_s = 0;       // MCA: a communication request that waited this long goes first
  std::vector<McaStep> mca_steps;

  double kernel_bytes_per_s = 0;  // reads and writes of a collective's kernel on the CUs
  double fused_cu_share = 1;      // CUs left where workgroups send themselves: the calls take occupancy
  double link_bytes_per_s = 0;    // one direction
  double link_latency_s = 0;
  std::int64_t egress_bytes = 0;  // stores on their way to the link before the storing workgroup has to wait

  double copy_trigger_s = 0;   // a copy that software has queued behind a flag: from the flag to its start
  std::int64_t dma_bytes = 0;  // what the DMA engines may have under way together
  int tracker_entries = 0, tracker_ways = 0;
  std::int64_t spill_bytes = 0;  // read and written in memory for an update that finds no entry

  double flops_per_s() const { return cus * clock_hz * flops_per_cycle * gemm_efficiency; }
  friend bool operator==(const Chip&, const Chip&) = default;
};

// All throw bad_input naming file, key, value and remedy. A name is looked for in clusters/chips/, as workloads are in
// workloads/; what has a '/' or ends in .json is a path.
Chip parse_chip(std::string_view json, std::string_view where);
Chip load_chip(const std::string& name_or_path);
std::vector<std::string> chip_names();

// One parameter, for sweeps and the page on sensitivity: its key in the file, as a number in base units.
struct Knob {
  std::string_view key;
  bool free = false;  // chosen by us to meet figures of Mega-GPT-2, not known
};
const std::vector<Knob>& knobs();
double knob(const Chip& chip, std::string_view key);  // throws bad_input naming those there are
void set_knob(Chip* chip, std::string_view key, double value);

}  // namespace weft::sim
