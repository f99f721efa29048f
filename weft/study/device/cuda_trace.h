// A timeline of one run on a GPU, for `weft bench --device cuda --trace`.
#pragma once

#include <span>
#include <string>

#include "weft/exec/cuda/executor.h"

namespace weft {

// Runs the plan of `like`, by its tables, in an executor of its own, and writes what its second run left to a file; the
// first finds no credits to wait for. `options` and `counts` are those of `like`; no counts: all rows.
TimelineShares trace_run(const CudaExecutor& like, CudaOptions options, std::span<const CudaOperands> operands,
                         std::span<const Counts> counts, const std::string& path);

}  // namespace weft
