#include "weft/study/proof.h"

namespace weft {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

TimedVerdict timed_verify(const Plan& plan, const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  TimedVerdict out;
  out.verdict = verify(plan, options);
  out.ms = milliseconds_since(start);
  return out;
}

}  // namespace weft
