// The clock of the simulators: integer picoseconds, so that the same input gives the same run on every machine.
#pragma once

#include <cmath>
#include <cstdint>

namespace weft::sim {

using Time = std::int64_t;  // picoseconds; 2^63 of them are 106 days

inline Time picoseconds(double seconds) { return static_cast<Time>(std::llround(seconds * 1e12)); }
inline double to_seconds(Time time) { return static_cast<double>(time) * 1e-12; }

}  // namespace weft::sim
