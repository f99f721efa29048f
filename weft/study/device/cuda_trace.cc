#include "weft/study/device/cuda_trace.h"

#include "weft/base/os/new_file.h"
#include "weft/base/trace.h"

namespace weft {

TimelineShares trace_run(const CudaExecutor& like, CudaOptions options, std::span<const CudaOperands> operands,
                         std::span<const Counts> counts, const std::string& path) {
  options.trace = true;
  CudaExecutor traced(like.plan(), like.tables(), options);
  traced.limit(counts);
  for (int run = 0; run < 2; ++run) {
    traced.start(operands);
    traced.finish();
  }
  const DeviceTimes times = traced.times();
  TraceText text;
  add_slices(traced.plan(), traced.tables(), times, &text);
  write_file(path, TraceText::file({text.events()}));
  return shares_of(traced.tables(), times);
}

}  // namespace weft
