// Rates, times and links as files of clusters and networks have them.
#pragma once

#include <string_view>

#include "weft/base/json.h"
#include "weft/cluster/cluster.h"

namespace weft {

// Wider than any hardware, narrow enough that no product of two overflows or vanishes.
inline constexpr double kMinRate = 1.0;
inline constexpr double kMaxRate = 1e18;
inline constexpr double kMaxSeconds = 1e3;

double get_rate(const Json& object, std::string_view key, std::string_view where);
double get_seconds(const Json& object, std::string_view key, std::string_view where);
Link get_link(const Json& object, std::string_view key, std::string_view where);

}  // namespace weft
