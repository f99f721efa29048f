// A reshard planned, and how long that took: its tasks, who sends what when, what strategies would take, what the
// checker found. And the schedule as a plan, proved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/plan/verify/verify.h"
#include "weft/reshard/build/build.h"
#include "weft/reshard/schedule/schedule.h"

namespace weft {

struct PlannedReshard {
  std::vector<Task> tasks;
  Schedule schedule;
  std::vector<Priced> prices;  // of the strategies that were looked at: latency and messages included
  double plan_ms = 0;          // from the layouts to the schedule
  std::vector<std::string> problems;

  double predicted_s() const;  // the price of the schedule's strategy
};
PlannedReshard plan_reshard(const Reshard& reshard, const Network& network, const ReshardOptions& options);

struct ProvedReshard {
  Plan plan;
  Verdict verdict;
  double build_ms = 0, verify_ms = 0;
};
// None where the schedule has so many moves that proving takes minutes.
std::optional<ProvedReshard> prove_reshard(const Reshard& reshard, const Network& network,
                                           const ReshardOptions& options, const PlannedReshard& planned);

}  // namespace weft
