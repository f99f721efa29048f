#include "weft/study/hidden.h"

#include <algorithm>

#include <fmt/core.h>

namespace weft {
namespace {

constexpr double kLittleComm = 0.1;   // of compute
constexpr double kLittleRoom = 0.05;  // of sequential

std::string why_too_much(const Overlap& t, double part) {
  const double noisy = t.fused_us * (1 + t.aa_band);
  if (*t.compute_us > noisy) return "not measurable: compute alone came out slower than fused";
  if (*t.comm_us > noisy) return "not measurable: the collective alone came out slower than fused";
  return fmt::format("not measurable: {:.2f} of the communication would be hidden, more than there is", part);
}

}  // namespace

std::optional<double> Overlap::ideal_us() const {
  if (!compute_us || !comm_us) return {};
  return std::max(*compute_us + comm_cpu_us.value_or(0), *comm_us);
}

bool compute_is_doubtful(const Overlap& times) {
  return times.sequential_us && times.compute_us && *times.compute_us > times.fused_us * (1 + times.aa_band);
}

Hidden hidden_part(const Overlap& t) {
  const auto ideal = t.ideal_us();
  if (!t.sequential_us || !ideal) return {};
  if (!t.comm_cpu_us) return {{}, "not measurable: nobody counts the CPU time of the collective alone here"};
  if (*t.comm_us < kLittleComm * *t.compute_us)
    return {{}, "little to hide: the collective alone takes less than a tenth of compute"};
  // A link whose bytes the cores themselves move leaves nothing to hide: the quotient would be noise over noise.
  if (*t.sequential_us - *ideal < kLittleRoom * *t.sequential_us)
    return {{}, "no room to hide: sequential is within a twentieth of the ideal"};
  const double part = (*t.sequential_us - t.fused_us) / (*t.sequential_us - *ideal);
  if (part > kMostHidden) return {{}, why_too_much(t, part)};
  return {part, ""};
}

}  // namespace weft
