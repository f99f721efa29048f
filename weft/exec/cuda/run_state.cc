#include "weft/exec/cuda/run_state.h"

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

RunState::RunState() { *failure() = {}; }

void RunState::require_usable(const Plan& plan) const {
  if (broken_) fail(Code::deadline, "a run of plan \"{}\" has failed; make a new op", plan.name);
  if (!connected_) fail(Code::internal, "plan \"{}\" is run before its ranks are connected", plan.name);
}

// Seen in memory of the host, where the device leaves it.
const DeviceFailure* RunState::failed() {
  if (*static_cast<volatile std::uint32_t*>(&failure()->failed) == 0) return nullptr;
  broken_ = true;
  return failure();
}

void RunState::abandon() {
  broken_ = true;
  set_word(gave_up(), 1);
}

void RunState::connect(const Plan& plan, std::span<std::byte* const> segments) {
  if (segments.size() != num(plan.num_ranks))
    bad_input("segments of {} ranks are given, but the plan has {}", segments.size(), plan.num_ranks);
  connected_ = true;
}

}  // namespace weft
