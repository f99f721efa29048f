#include "weft/reshard/schedule/candidates.h"

#include <algorithm>
#include <map>

#include "weft/base/index.h"

namespace weft {
namespace {

Candidate candidate(const TaskSet& set, Slice slice) {
  std::vector<Job> jobs;
  add_jobs(set.strategy, slice, set.task(slice.task), set.sites(slice.task), set.resources, jobs);
  Candidate result{std::move(slice), {}, 0};
  for (const Job& job : jobs) {
    result.seconds = std::max(result.seconds, job.seconds);
    for (const Use& use : job.uses)
      if (set.resources.is_nic(use.resource)) result.uses.push_back(use);
  }
  return result;
}

// What every candidate of a task uses, at the least any of them does, in seconds of its whole duration.
std::vector<Use> common_uses(const std::vector<Candidate>& all) {
  std::vector<Use> common;
  for (const Use& use : all.front().uses) common.push_back({use.resource, all.front().seconds});
  for (const Candidate& candidate : all)
    std::erase_if(common, [&](Use& use) {
      const auto is_it = [&](const Use& other) { return other.resource == use.resource; };
      use.bytes = std::min(use.bytes, candidate.seconds);
      return std::none_of(candidate.uses.begin(), candidate.uses.end(), is_it);
    });
  return common;
}

}  // namespace

Candidates candidates(const TaskSet& set) {
  Candidates result;
  const std::vector<std::vector<int>> entries = balanced_entries(set);
  std::map<std::pair<int, std::int64_t>, int> known;
  for (int i = 0; i < set.size(); ++i) {
    const Sites& sites = set.sites(i);
    if (sites.wanting.empty()) continue;
    std::vector<Candidate> all;
    for (const Door& door : sites.senders) all.push_back(candidate(set, set.whole(i, door.rank, entries[at(i)])));
    const bool has_choice =
        std::any_of(sites.wanting.begin(), sites.wanting.end(), [](const Site& site) { return site.doors.size() > 1; });
    const int here = int_size(result.tasks);
    int& twin = known.try_emplace({set.table.id(i), set.task(i).bytes}, -1).first->second;
    result.twin_before.push_back(has_choice ? -1 : twin);
    twin = here;
    result.least.push_back(common_uses(all));
    result.of.push_back(std::move(all));
    result.tasks.push_back(i);
  }
  return result;
}

double Candidate::begin_s(const std::vector<double>& free_at) const {
  double begin = 0;
  for (const Use& use : uses) begin = std::max(begin, free_at[at(use.resource)]);
  return begin;
}

std::vector<Slice> slices_of(const TaskSet& set, const std::vector<const Candidate*>& found) {
  std::vector<Slice> slices;
  for (const Candidate* candidate : found) slices.push_back(candidate->slice);
  return with_local(set, std::move(slices));
}

std::vector<Slice> with_local(const TaskSet& set, std::vector<Slice> slices) {
  for (int i = 0; i < set.size(); ++i)
    if (set.sites(i).wanting.empty()) slices.push_back({i, set.task(i).box, {}, {}});
  return slices;
}

}  // namespace weft
