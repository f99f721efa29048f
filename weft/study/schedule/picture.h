// Timed pipeline schedules as pictures: one with its links, or several under each other on a common axis.
#pragma once

#include <string>
#include <vector>

#include "weft/schedule/compare.h"

namespace weft {

inline constexpr std::int64_t kMostDrawnItems = 20'000;

// Work and sends of every stage. Throws bad_input where there are more than kMostDrawnItems items.
std::string schedule_svg(const pipeline::Compared& one, const std::string& title);
// The work of every stage of each.
std::string schedules_svg(const std::vector<pipeline::Compared>& all, const std::string& title);

}  // namespace weft
