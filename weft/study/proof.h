// Proofs that say how long they took, and the clock they use.
#pragma once

#include <chrono>

#include "weft/plan/verify/verify.h"

namespace weft {

double milliseconds_since(std::chrono::steady_clock::time_point start);

struct TimedVerdict {
  Verdict verdict;
  double ms = 0;
};
TimedVerdict timed_verify(const Plan& plan, const VerifyOptions& options = {});

}  // namespace weft
