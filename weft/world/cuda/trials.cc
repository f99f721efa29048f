#include "weft/world/cuda/trials.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/pull.h"
#include "weft/plan/plan.h"
#include "weft/transport/transport.h"
#include "weft/world/cuda/accord.h"

namespace weft {
namespace {

// Operands of one rank, for all ways of an op. A GPU makes products of zeros faster than others.
class TrialOperands {
 public:
  explicit TrialOperands(const CudaOp& op) {
    const Plan& plan = op.plan();
    const Producer& p = plan.producers[0];
    const std::int64_t outputs = op.output_bytes() / size_of(plan.buffers[at(plan.buffer("y"))].dtype);
    if (p.bias) operands_.bias = zeros(p.n * size_of(Dtype::f32));
    if (p.residual) operands_.residual = zeros(outputs * size_of(Dtype::f32));
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
double least_us(CudaOp& op, const TrialOperands& given, const DeviceQueue& queue, int trials) {
  constexpr int kRuns = 4;  // in a row: ranks do not begin at one time
  follow(queue.handle(), given.made_in());
  DeviceTimer timer;
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial <= trials; ++trial) {  // the first is not timed
    timer.begin(queue.handle());
    for (int run = 0; run < kRuns; ++run) op.run(given.operands(), queue.handle());
    timer.end(queue.handle());
    op.finish();
    if (trial > 0) least = std::min(least, timer.us() / kRuns);
  }
  return least;
}

// What all ranks have come to: the slowest's time, or what the first that refused says.
struct Outcome {
  double us = 0;
  std::string refused;
};

// Collective. Ranks fail together, too: none is left waiting for one that has thrown.
Outcome outcome_of(Transport& transport, const std::function<double()>& attempt) {
  constexpr std::string_view kTold = "what a rank says of a trial";
  Json mine;
  std::optional<Error> failed;
  try {
    if (const auto why = refusal_of([&] { mine = {{"us", attempt()}}; })) mine = {{"refused", *why}};
  } catch (const Error& error) {
    if (error.code() != Code::deadline) throw;
    failed = error;
    mine = {{"failed", error.what()}};
  }
  Outcome out;
  const std::vector<std::string> told = transport.all_gather(mine.dump());
  if (failed) throw *failed;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    const Json one = parse_json(told[rank], kTold);
    if (const Json* why = find_field(one, "failed", kTold); why != nullptr)
      throw Error(Code::deadline, fmt::format("rank {} failed: {}", rank, why->get<std::string>()),
                  static_cast<int>(rank));
    if (const Json* why = find_field(one, "refused", kTold); why != nullptr && out.refused.empty())
      out.refused = why->get<std::string>();
    else if (why == nullptr)
      out.us = std::max(out.us, get_double(one, "us", kTold, 0, 1e15));
  }
  return out;
}

}  // namespace

CudaTrials try_cuda_ways(Transport& transport, const std::vector<CudaWay>& ways, int trials,
                         const std::function<CudaOp(const CudaWay&)>& compile) {
  const DeviceQueue queue(QueueKind::apart);  // outlives the ops that run in it
  std::optional<TrialOperands> operands;
  std::optional<CudaOp> best;
  double least = std::numeric_limits<double>::infinity();
  std::string tried, refused;
  for (const CudaWay& way : ways) {
    std::optional<CudaOp> op;
    Outcome outcome = outcome_of(transport, [&] {
      op.emplace(compile(way));
      if (!operands) operands.emplace(*op);
      return 0.0;
    });
    if (outcome.refused.empty())
      outcome = outcome_of(transport, [&] { return least_us(*op, *operands, queue, trials); });
    if (!tried.empty()) tried += "; ";
    tried += to_string(way);
    if (!outcome.refused.empty()) {
      tried += " refused: " + outcome.refused;
      if (refused.empty()) refused = outcome.refused;
      continue;
    }
    tried += fmt::format(" {:.1f} us", outcome.us);
    if (outcome.us < least) least = outcome.us, best.emplace(std::move(*op));
  }
  if (!best) bad_input("{}", refused);
  return {std::move(*best), tried};
}

}  // namespace weft
