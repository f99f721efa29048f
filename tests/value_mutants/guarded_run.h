// Runs a plan on the CPU executor in memory with fences: every copy of every buffer, the counters, and every input has
// bytes around it that nobody may touch. AddressSanitizer stops who does; without it, bytes that have changed are found
// after the run. What comes out is compared with the reference executor, bit by bit.
#pragma once

#include <cstdint>
#include <string>

#include "weft/plan/plan.h"

namespace weft::mutants {

// Whether the plan's memory and inputs are small enough to be allotted in a test.
bool fits_in_a_test(const Plan& plan);

// Four runs with other inputs each, two of them with fewer rows, of the output and of peers. Empty, or what went wrong.
// `original`, where not null, owes the same under every count of rows: its results hold for `plan` too.
std::string differs_from_reference(const Plan& plan, const Plan* original, std::uint64_t seed);

}  // namespace weft::mutants
