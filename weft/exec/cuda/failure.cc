#include "weft/exec/cuda/failure.h"

#include <fmt/core.h>

#include "weft/base/index.h"

namespace weft {
namespace {

int who_signals(const DevicePlan& device, int rank, std::uint32_t counter) {
  for (int r = 0; r < int_size(device.tables); ++r)
    for (const DeviceSignal& signal : device.tables[at(r)].signals)
      if (signal.rank == rank && signal.counter == counter) return r;
  return rank;
}

}  // namespace

std::string describe(const Plan& plan, const Expander& expander, const DevicePlan& device, const DeviceFailure& f) {
  const LaneTable& table = device.tables[at(f.rank)];
  const DeviceLane& lane = f.trigger != 0 ? table.triggers[at(f.index)] : table.lanes[at(f.index)];
  const DeviceWait& wait = table.waits[at(lane.first_wait + f.wait)];
  const Program program = expander.program(f.rank);
  const Action& action = program.actions[at(lane.action)];
  const std::string tile = action.box.dims > 0 ? fmt::format(", tile {} {}", lane.lane,
                                                             to_string(lane_box(action.box, action.tile, lane.lane)))
                                               : "";
  return fmt::format("rank {} waited {:.1f} s for {} from rank {} in {}{}: saw {} of {} updates", f.rank,
                     static_cast<double>(f.waited_ns) * 1e-9,
                     expander.counter_name(static_cast<int>(wait.counter), f.rank),
                     who_signals(device, f.rank, wait.counter), describe(plan, program, at(lane.action)), tile,
                     static_cast<std::int32_t>(f.seen - f.started), wait.at);
}

}  // namespace weft
