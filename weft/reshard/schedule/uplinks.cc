#include "weft/reshard/schedule/uplinks.h"

#include <cmath>

namespace weft {
namespace {

constexpr double kFitSlack = 1e-12;  // of a rate or a time: what rounding may add

}  // namespace

double Uplinks::first_fit(const Profile& profile, double begin, double seconds, double room) const {
  auto point = profile.upper_bound(begin);
  if (point != profile.begin()) --point;
  for (; point != profile.end(); ++point) {
    const auto after = std::next(point);
    if (after != profile.end() && after->first <= begin * (1 + kFitSlack)) continue;
    if (point->first >= (begin + seconds) * (1 - kFitSlack)) break;
    if (point->second > room && after != profile.end()) begin = after->first;
  }
  return begin;
}

double Uplinks::first_room(const Job& job, double begin) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (const Use& use : job.uses) {
      if (resources_.is_nic(use.resource) || !std::isfinite(resources_.rate(use.resource))) continue;
      const double rate = resources_.rate(use.resource), wanted = use.bytes / job.seconds;
      const double later = first_fit(profiles_[use.resource], begin, job.seconds, rate * (1 + kFitSlack) - wanted);
      if (later > begin) begin = later, moved = true;
    }
  }
  return begin;
}

double Uplinks::reserve(const Job& job, double begin) {
  begin = first_room(job, begin);
  for (const Use& use : job.uses) {
    if (resources_.is_nic(use.resource) || !std::isfinite(resources_.rate(use.resource))) continue;
    Profile& profile = profiles_[use.resource];
    const double end = begin + job.seconds, wanted = use.bytes / job.seconds;
    for (const double time : {begin, end}) {
      auto after = profile.upper_bound(time);
      const double before = after == profile.begin() ? 0 : std::prev(after)->second;
      profile.emplace(time, before);
    }
    for (auto point = profile.find(begin); point->first < end; ++point) point->second += wanted;
  }
  return begin;
}

}  // namespace weft
