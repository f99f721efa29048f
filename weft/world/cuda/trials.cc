#include "weft/world/cuda/trials.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/pull.h"
#include "weft/plan/plan.h"
#include "weft/transport/transport.h"

namespace weft {
namespace {

// Operands of one rank. A GPU makes products of zeros faster than others.
class TrialOperands {
 public:
  explicit TrialOperands(const Plan& plan) {
    const Producer& p = plan.producers[0];
    if (p.bias) operands_.bias = zeros(p.n * size_of(Dtype::f32));
    if (p.residual) operands_.residual = zeros(p.m * plan.num_ranks * p.n * size_of(Dtype::f32));  // at most
    if (p.has_w()) operands_.w = random(p.n * p.k * size_of(p.weight));
    operands_.x = random(p.m * (p.has_w() ? p.k : p.n) * size_of(p.x()));
  }
  const CudaOperands& operands() const { return operands_; }
  void* made_in() const { return queue_.handle(); }

 private:
  const void* zeros(std::int64_t bytes) { return memory_.emplace_back(bytes).data(); }
  const void* random(std::int64_t bytes) {
    fill_random(memory_.emplace_back(bytes), 1, made_in());
    return memory_.back().data();
  }

  DeviceQueue queue_;  // ordered: memory is zeroed in the default stream
  std::vector<DeviceMemory> memory_;
  CudaOperands operands_;
};

// The least time of some runs in a row.
double least_us(Transport& transport, CudaOp& op, int trials) {
  constexpr int kRuns = 4;  // in a row: ranks do not begin at one time
  const DeviceQueue queue(QueueKind::apart);
  const TrialOperands given(op.plan());
  const CudaOperands& operands = given.operands();
  follow(queue.handle(), given.made_in());
  DeviceTimer timer;
  transport
      .barrier();  // who still allots memory waits for kernels of its GPU, and those of a peer wait for this rank's
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial <= trials; ++trial) {  // the first is not timed
    timer.begin(queue.handle());
    for (int run = 0; run < kRuns; ++run) op.run(operands, queue.handle());
    timer.end(queue.handle());
    op.finish();
    if (trial > 0) least = std::min(least, timer.us() / kRuns);
  }
  return least;
}

double slowest_of(Transport& transport, double mine) {
  double out = 0;
  for (const std::string& told : transport.all_gather(std::to_string(mine))) out = std::max(out, std::stod(told));
  return out;
}

}  // namespace

CudaTrials try_cuda_ways(Transport& transport, const std::vector<CudaWay>& ways, int trials,
                         const std::function<CudaOp(const CudaWay&)>& compile) {
  if (ways.size() == 1) return {compile(ways[0]), ""};
  std::optional<CudaOp> best;
  double least = std::numeric_limits<double>::infinity();
  std::string tried;
  for (const CudaWay& way : ways) {
    CudaOp op = compile(way);
    const double us = slowest_of(transport, least_us(transport, op, trials));
    tried += fmt::format("{}{} {:.1f} us", tried.empty() ? "" : "; ", to_string(way), us);
    if (us < least) least = us, best.emplace(std::move(op));
  }
  return {std::move(*best), tried};
}

}  // namespace weft
