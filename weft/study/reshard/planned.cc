#include "weft/study/reshard/planned.h"

#include "weft/base/clock.h"

namespace weft {
namespace {

constexpr std::size_t kMostProvedHops = 20'000;  // some seconds

std::size_t num_hops(const Schedule& schedule) {
  std::size_t hops = 0;
  for (const Chunk& chunk : schedule.chunks) hops += chunk.hops.size();
  return hops;
}

double milliseconds_since(std::int64_t start_ns) { return seconds_since(start_ns) * 1e3; }

}  // namespace

double PlannedReshard::predicted_s() const {
  for (const Priced& one : prices)
    if (one.strategy == schedule.strategy) return one.seconds;
  return 0;
}

PlannedReshard plan_reshard(const Reshard& reshard, const Network& network, const ReshardOptions& options) {
  PlannedReshard planned;
  const std::int64_t start = now_ns();
  planned.tasks = tasks(reshard);
  planned.schedule = choose(reshard, planned.tasks, network, options, &planned.prices);
  planned.plan_ms = milliseconds_since(start);
  planned.problems = problems(planned.schedule, planned.tasks, network);
  return planned;
}

std::optional<ProvedReshard> prove_reshard(const Reshard& reshard, const Network& network,
                                           const ReshardOptions& options, const PlannedReshard& planned) {
  if (num_hops(planned.schedule) > kMostProvedHops) return {};
  ProvedReshard proved;
  std::int64_t start = now_ns();
  proved.plan = build(reshard, planned.schedule, network, options);
  proved.build_ms = milliseconds_since(start);
  start = now_ns();
  proved.verdict = verify(proved.plan);
  proved.verify_ms = milliseconds_since(start);
  return proved;
}

}  // namespace weft
