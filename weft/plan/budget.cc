#include "weft/plan/budget.h"

#include "weft/base/error.h"

namespace weft {

Budget::Budget(double times) {
  if (!(times > 0 && times <= kMostTimes))
    bad_input("a budget of {} times the usual one; give a number above 0, at most {}", times, kMostTimes);
  most_work_ = static_cast<std::int64_t>(times * kWork);
  most_bytes_ = static_cast<std::int64_t>(times * kBytes);
}

double Budget::used() const {
  return std::max(static_cast<double>(work_) / kWork, static_cast<double>(most_held_ + scratch_) / kBytes);
}

void Budget::out_of_work() const {
  bad_input(
      "the plan cannot be read and proved within its budget of {} units of work; give a smaller plan, or a larger "
      "budget (weft plan --budget N)",
      most_work_);
}

void Budget::out_of_bytes() const {
  bad_input(
      "the plan cannot be read and proved within its budget of {} MB of memory; give a smaller plan, or a larger "
      "budget (weft plan --budget N)",
      most_bytes_ >> 20);
}

}  // namespace weft
