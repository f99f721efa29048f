// What the paper's comparison comes to: speedups and traffic over sets of cases, ours beside the paper's figures, and
// the bars that the simulator has to meet.
#pragma once

#include <string>
#include <vector>

#include "weft/study/sim/case.h"

namespace weft::sim {

struct Spread {
  double geomean = 0, max = 0;  // percent over sequential
};

struct SimSummary {
  Spread ideal, ideal_nmc, t3, t3_fifo, t3_mca;
  double traffic_cut = 0, traffic_cut_max = 0;  // percent of DRAM bytes that T3-MCA saves, the gather included
  double gemm_reads = 1;                        // times fewer
  double rs_reads_8 = 0, rs_reads_16 = 0;       // times fewer; 0 where no case has that degree
  double nmc_8 = 0, nmc_16 = 0;                 // percent that reduce-scatter alone gains from near-memory updates
  double write_cut = 0;                         // percent of GEMM and reduce-scatter writes
};
SimSummary summary(Simulator& simulator, const std::vector<SimCase>& cases);

// A figure of the paper with ours over the cases that were fitted, those that were predicted, and all of them.
struct PaperRow {
  std::string what, unit;
  double paper = 0;
  double fitted = 0, predicted = 0, all = 0;
  bool is_open = false;  // shown as a band, not predicted: plain T3
};
std::vector<PaperRow> paper_rows(const SimSummary& fitted, const SimSummary& predicted, const SimSummary& all);

// What must hold, with what was seen.
struct SimBar {
  std::string what, target, seen;
  bool met = false;
};
std::vector<SimBar> sim_bars(Simulator& simulator, const SimSummary& all);

// DRAM bytes that the counting model gives for a device: chunk c = output / N.
struct Counted {
  std::int64_t sequential_rs_read, t3_rs_read, sequential_write, t3_write;
};
Counted counted(const SimShape& shape);
bool counts_agree(Simulator& simulator, const SimCase& one);

}  // namespace weft::sim
