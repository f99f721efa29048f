// What the reports of plans and of steps on a network share: times, ranks that were simulated, and the hottest links.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "weft/sim/net/run.h"

namespace weft::netsim {

std::string time_text(Time time);                     // "12.3 us"
std::string simulated_text(const NetResult& result);  // "simulated 1 of 128 ranks (one of each class, as proved)"

// The hottest links, at most so many: for programs, and as a table below an empty line; nothing where there are none.
nlohmann::ordered_json links_json(const NetResult& result, const Topology& topology, int most);
std::string links_text(const NetResult& result, const Topology& topology, int most);

}  // namespace weft::netsim
