// A reshard planned: tasks, who sends what when, how long finding it took; and what `weft reshard plan` says of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/plan/verify/verify.h"
#include "weft/reshard/build/build.h"
#include "weft/reshard/schedule/schedule.h"

#include "cli/reshard/spec.h"

namespace weft::cli {

struct Planned {
  std::vector<Task> tasks;
  Schedule schedule;
  std::vector<Priced> prices;  // of the strategies that were looked at: latency and messages included
  double plan_ms = 0;          // from the layouts to the schedule
  std::vector<std::string> problems;
};
Planned plan_reshard(const ReshardSpec& spec);
ReshardOptions options_of(const ReshardSpec& spec);

// The schedule as a plan, proved; none where it has so many moves that proving takes minutes.
struct Proof {
  Plan plan;
  Verdict verdict;
  double build_ms = 0, verify_ms = 0;
};
std::optional<Proof> prove_reshard(const ReshardSpec& spec, const Planned& planned);

std::string reshard_text(const ReshardSpec& spec, const Planned& planned, const std::optional<Proof>& proof);
std::string reshard_json(const ReshardSpec& spec, const Planned& planned, const std::optional<Proof>& proof);

// One line for every strategy and choice.
struct ComparedRow {
  Strategy strategy;
  Choice choice;
  Planned planned;
};
std::vector<ComparedRow> compare_plans(const ReshardSpec& spec);
std::string compare_text(const ReshardSpec& spec, const std::vector<ComparedRow>& rows);
std::string compare_json(const ReshardSpec& spec, const std::vector<ComparedRow>& rows);

std::string network_text(const Network& network);  // "4 hosts with a NIC of 1.25 GB/s, 10.0 us"

}  // namespace weft::cli
