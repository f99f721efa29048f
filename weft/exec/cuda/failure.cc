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

// What is waited for, and of whom.
std::string awaited(const Expander& expander, const DevicePlan& device, int rank, std::uint32_t counter) {
  for (std::size_t i = 0; i < device.crossings.size(); ++i)
    if (device.crossings[i].to == rank && device.crossings[i].arrived == counter)
      return fmt::format("crossing {} from rank {}", i, device.crossings[i].from);
  return fmt::format("{} from rank {}", expander.counter_name(static_cast<int>(counter), rank),
                     who_signals(device, rank, counter));
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
  return fmt::format("rank {} waited {:.1f} s for {} in {}{}: saw {} of {} updates", f.rank,
                     static_cast<double>(f.waited_ns) * 1e-9, awaited(expander, device, f.rank, wait.counter),
                     describe(plan, program, at(lane.action)), tile, static_cast<std::int32_t>(f.seen - f.started),
                     wait.at);
}

std::string describe_crossing(const Plan& plan, const Expander& expander, const DevicePlan& device,
                              const CrossingFailure& f) {
  const Crossing& c = device.crossings[at(f.index)];
  return fmt::format("rank {} waited {:.1f} s to send crossing {} to rank {}, of {}: saw {} of {} tiles", c.from,
                     static_cast<double>(f.waited_ns) * 1e-9, f.index, c.to,
                     describe(plan, expander.program(c.from), at(c.action)),
                     static_cast<std::int32_t>(f.seen - f.started), c.lanes);
}

}  // namespace weft
