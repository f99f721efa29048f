#include "weft/study/device/device_prediction.h"

#include <algorithm>
#include <limits>
#include <set>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/program.h"
#include "weft/sim/chip/run.h"

namespace weft {
namespace {

// Other hosts that rank 0 stores something at.
int hosts_reached(const Plan& plan, const Pace& pace) {
  const Program program = Expander(plan).program(0);
  std::set<int> hosts;
  for (const Action& action : program.actions)
    for (const Piece& piece : program.targets(action))
      if (pace.between(0, piece.rank)) hosts.insert(pace.host(piece.rank));
  return std::max(int_size(hosts), 1);
}

// A rank's part of what its host sends: ranks of a host share its links.
double bytes_per_s(const Plan& plan, const Pace& pace) {
  const int links = pace.fabric == Fabric::pairs ? hosts_reached(plan, pace) : 1;
  return pace.bytes_per_s * links / std::min(pace.ranks_per_host, plan.num_ranks);
}

std::optional<double> simulated_us(const Plan* plan, const DeviceStudyOptions& options, sim::RunOptions run) {
  if (plan == nullptr || options.link != CudaLink::hbm) return {};
  run.element_bytes = 2;
  for (const sim::Devices devices : {sim::Devices::one, sim::Devices::every}) {
    run.devices = devices;
    try {
      const sim::Chip chip = part_of_chip(sim::load_chip("h200-like"), *plan, options.pace);
      return sim::simulate(*plan, chip, run).seconds() * 1e6;
    } catch (const Error& error) {
      if (error.code() != Code::bad_input) throw;
    }
  }
  return {};
}

}  // namespace

sim::Chip part_of_chip(const sim::Chip& whole, const Plan& plan, const std::optional<Pace>& pace) {
  sim::Chip out = whole;
  const int ranks = plan.num_ranks;
  out.cus = whole.cus / 2 / ranks * 2;
  out.llc_bytes = whole.llc_bytes / ranks;
  out.dram_bytes_per_s = whole.dram_bytes_per_s / ranks;
  out.kernel_bytes_per_s = whole.kernel_bytes_per_s / ranks;
  out.link_bytes_per_s = pace ? bytes_per_s(plan, *pace) : out.dram_bytes_per_s;
  out.link_latency_s = pace ? pace->latency_s : whole.link_latency_s;
  return out;
}

Measurement::Predicted predict_on_device(const PredictedPlans& plans, const DeviceStudyOptions& options) {
  Measurement::Predicted out;
  out.fused_us = simulated_us(plans.fused, options, {}).value_or(std::numeric_limits<double>::quiet_NaN());
  out.compute_us = simulated_us(plans.kept, options, {.output = sim::Output::cached, .keep = true});
  out.comm_us = simulated_us(plans.collective, options, {});
  if (out.compute_us && out.comm_us) out.sequential_us = *out.compute_us + *out.comm_us;
  return out;
}

}  // namespace weft
