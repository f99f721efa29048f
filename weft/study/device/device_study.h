// One op measured on a GPU whose multiprocessors the ranks share, in the words of measure.h. Contestants take turns,
// each after a pause of some milliseconds, so that each finds a cool GPU (docs/results/h200.md says why); times are the
// GPU's own, from its first instruction to the last rank's result.
//   compute     our gemm, every rank's output kept
//   library     cuBLASLt, the best of what it proposes, rank after rank on all multiprocessors
//   comm        the collective alone: the fastest of our routes, and without links of kernels that read peers' memory
//   sequential  the faster of the two gemms, then that collective
//   panels      our gemm in panels on most multiprocessors, the collective of each on a few, in a second queue
// Over pcie others_us has the kernel of the fused run, with its waits for what arrives; and, of rows that only go to
// others, cuBLASLt in panels that copy engines take on (cuda_tracked.h).
// A gemv is timed as a graph of many runs, each with weights of its own, so that they come from memory; `library` is
// cuBLASLt, all ranks at once; and ours, fused or not, may begin while the kernel before still runs, if that is faster.
// Rows of experts are drawn anew in every round (cuda_routed_study.h).
// Embedding bags are timed three in a row, each with indices of its own. Their collective alone is a kernel that pulls
// what was kept, or over pcie the same copies, and sequential starts those when the kernel has ended.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/exec/cuda/device_lane.h"
#include "weft/study/measure.h"
#include "weft/transport/local/pace.h"

namespace weft {

struct DeviceStudyOptions {
  int rounds = 15;
  CudaLink link = CudaLink::hbm;
  std::optional<Pace> pace;                             // of link hbm; none: peers' memory is the GPU's own
  std::function<void(int done, int of)> progress = {};  // may be empty
  // Where to write a timeline (exec/cuda/timeline.h) of one run of fused, which comes after the rounds; empty: nowhere.
  std::string trace = {};
};

// The op as a GPU makes it: bf16 operands, partial sums and outputs, w (n, k), tiles of 128 x 256; of a gemv all rows
// by 16. Throws bad_input for ops that it cannot make.
OpSpec device_spec(OpSpec spec);
bool is_device_gemv(const OpSpec& spec);
// Throws bad_input for ops of which there is no timeline: those with a kernel of their own.
void check_device_trace(const OpSpec& spec);

// Of a spec from device_spec(). Throws bad_input where this build has no CUDA or the machine no GPU.
Measurement measure_on_device(const OpSpec& spec, const DeviceStudyOptions& options);

// "NVIDIA H200", or empty; then why_no_device() says what is missing.
std::string device_name();
std::string why_no_device();

}  // namespace weft
