#include "weft/reshard/schedule/timing.h"

#include <algorithm>
#include <limits>

#include "weft/base/index.h"
#include "weft/reshard/schedule/uplinks.h"

namespace weft {
double run_in_order(std::vector<Job>& jobs, const Resources& resources) {
  std::vector<double> free_at(at(resources.size()), 0.0);
  Uplinks uplinks(resources);
  double makespan = 0;
  for (Job& job : jobs) {
    double begin = 0;
    for (const Use& use : job.uses)
      if (resources.is_nic(use.resource)) begin = std::max(begin, free_at[at(use.resource)]);
    begin = uplinks.reserve(job, begin);
    const double end = begin + job.seconds;
    for (const Use& use : job.uses) free_at[at(use.resource)] = end;
    if (!job.uses.empty()) makespan = std::max(makespan, end);
    job.set_times(job.uses.empty() ? 0 : begin, job.uses.empty() ? 0 : end);
  }
  return makespan;
}

double run_together(std::vector<Job>& jobs, const Resources& resources) {
  run_one_at_a_time(jobs, resources, std::numeric_limits<double>::infinity(), 0);
  const auto begin = [](const Job& job) { return job.chunks.empty() ? 0 : job.chunks.front().begin_s; };
  std::stable_sort(jobs.begin(), jobs.end(), [&](const Job& a, const Job& b) { return begin(a) < begin(b); });
  std::vector<double> load(at(resources.size()), 0.0);
  double makespan = 0;
  for (const Job& job : jobs) {
    makespan = std::max(makespan, job.seconds);
    for (const Use& use : job.uses) load[at(use.resource)] += use.bytes;
  }
  for (int i = 0; i < resources.size(); ++i) makespan = std::max(makespan, load[at(i)] / resources.rate(i));
  for (Job& job : jobs) job.set_times(0, job.uses.empty() ? 0 : makespan);
  return makespan;
}

}  // namespace weft
