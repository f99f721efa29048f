#include "weft/reshard/schedule/candidates.h"

#include <algorithm>
#include <map>

#include "weft/base/index.h"

namespace weft {
namespace {

Candidate candidate(const Problem& problem, Slice piece) {
  std::vector<Job> jobs;
  add_jobs(problem.strategy, piece, problem.task(piece.task), problem.sites(piece.task), problem.resources, jobs);
  Candidate result{std::move(piece), {}, 0};
  for (const Job& job : jobs) {
    result.seconds = std::max(result.seconds, job.seconds);
    for (const Use& use : job.uses)
      if (problem.resources.is_nic(use.resource)) result.uses.push_back(use);
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

Candidates candidates(const Problem& problem) {
  Candidates result;
  const std::vector<std::vector<int>> entries = balanced_entries(problem);
  std::map<std::pair<int, std::int64_t>, int> known;
  for (int i = 0; i < problem.size(); ++i) {
    const Sites& sites = problem.sites(i);
    if (sites.wanting.empty()) continue;
    std::vector<Candidate> all;
    for (const Site& site : sites.holding)
      for (const Door& door : site.doors)
        if (std::binary_search(site.holders.begin(), site.holders.end(), door.rank))
          all.push_back(
              candidate(problem, chain(problem.task(i), i, sites, problem.network(), door.rank, entries[at(i)])));
    const bool has_choice =
        std::any_of(sites.wanting.begin(), sites.wanting.end(), [](const Site& site) { return site.doors.size() > 1; });
    const int here = int_size(result.tasks);
    int& twin = known.try_emplace({problem.table.id(i), problem.task(i).bytes}, -1).first->second;
    result.twin_before.push_back(has_choice ? -1 : twin);
    twin = here;
    result.least.push_back(common_uses(all));
    result.of.push_back(std::move(all));
    result.tasks.push_back(i);
  }
  return result;
}

std::vector<Slice> with_local(const Problem& problem, std::vector<Slice> pieces) {
  for (int i = 0; i < problem.size(); ++i)
    if (problem.sites(i).wanting.empty()) pieces.push_back({i, problem.task(i).box, {}, {}});
  return pieces;
}

}  // namespace weft
