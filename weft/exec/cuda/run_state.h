// What the runs of an executor share beside its plan: their number, which the device counts; the word that ends all
// waits; and what the first wait to last too long leaves on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/plan/plan.h"

namespace weft {

class RunState {
 public:
  RunState();

  // For the arguments of a kernel.
  std::uint32_t* run() const { return reinterpret_cast<std::uint32_t*>(run_.data()); }
  std::uint32_t* gave_up() const { return reinterpret_cast<std::uint32_t*>(gave_up_.data()); }
  DeviceFailure* failure() const { return reinterpret_cast<DeviceFailure*>(failure_.data()); }

  // Before a run: throws deadline where an earlier one is known to have failed, internal where ranks do not know each
  // other's memory yet.
  void require_usable(const Plan& plan) const;
  // What a run has left behind, or null. The executor is of no use then.
  const DeviceFailure* failed();
  void break_off() { broken_ = true; }
  // Lets every wait on the device end at once, for ever after.
  void abandon();
  // Ranks know each other's memory: as many segments as the plan has ranks, or bad_input.
  void connect(const Plan& plan, std::span<std::byte* const> segments);

 private:
  DeviceMemory gave_up_{4}, run_{8};
  PinnedMemory failure_{sizeof(DeviceFailure)};
  bool connected_ = false, broken_ = false;
};

}  // namespace weft
