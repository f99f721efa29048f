// Ops of a few microseconds: a common start costs more than they do. So fused runs, the producer alone and
// MPI_Allreduce alone take turns in blocks of back-to-back runs with no barrier between runs, and what the collective
// adds is the difference of neighbouring blocks.
#pragma once

#include <optional>

#include "weft/study/op_spec.h"

namespace weft {

class World;

// Microseconds a run on the slowest rank, medians over the blocks.
struct Paired {
  double fused_us = 0, compute_us = 0;
  double extra_us = 0;                            // median of (fused - compute) over neighbouring blocks
  double aa_band = 0;                             // |a / b - 1| of fused blocks measured twice
  std::optional<double> mpi_allreduce_us, ratio;  // under mpirun; ratio = extra / mpi_allreduce
  double max_rel_err = 0;
  int runs = 0;
};

struct PairedOptions {
  int runs = 2000, block = 100;
};

// Collective. Throws internal where a result is wrong. The op has a producer.
Paired measure_paired(World& world, const OpSpec& spec, const PairedOptions& options);

}  // namespace weft
