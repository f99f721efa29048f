// What `weft reshard plan` says of a reshard that was planned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/study/reshard/planned.h"

#include "cli/reshard/flags.h"

namespace weft::cli::reshard {

std::string plan_text(const Spec& spec, const PlannedReshard& planned, const std::optional<ProvedReshard>& proof);
std::string plan_json(const Spec& spec, const PlannedReshard& planned, const std::optional<ProvedReshard>& proof);

// One line for every strategy and choice.
struct ComparedRow {
  Strategy strategy;
  Choice choice;
  PlannedReshard planned;
};
std::vector<ComparedRow> compare_plans(const Spec& spec);
std::string compare_text(const Spec& spec, const std::vector<ComparedRow>& rows);
std::string compare_json(const Spec& spec, const std::vector<ComparedRow>& rows);

std::string network_text(const Network& network);  // "4 hosts with a NIC of 1.25 GB/s, 10.0 us"

}  // namespace weft::cli::reshard
