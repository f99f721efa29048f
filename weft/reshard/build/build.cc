#include "weft/reshard/build/build.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/reshard/build/price.h"
#include "weft/reshard/build/stream.h"
#include "weft/reshard/build/tables.h"

namespace weft {
namespace {

using resharding::Tiling;

// A price this close to the bound of all schedules is not worth looking further: other strategies save at most as much.
constexpr double kCloseEnough = 1.02;

// The first is taken where others cost as much: what is least on the network.
constexpr std::array kTried{Strategy::broadcast, Strategy::local_allgather, Strategy::global_allgather,
                            Strategy::send_recv};

void check_world(const Reshard& reshard, const Network& network) {
  check_reshard(reshard);
  if (network.num_ranks() != reshard.num_ranks)
    bad_input("network \"{}\" has {} ranks, but the reshard is for {}; give one of {} ranks", network.name,
              network.num_ranks(), reshard.num_ranks, reshard.num_ranks);
}

Tiling tiling_of(const ReshardOptions& options, std::array<std::int64_t, 2> fixed = {0, 0}) {
  if (options.tile_bytes < 0) bad_input("tile_bytes is {}; use 0 to have it chosen, or more", options.tile_bytes);
  return {options.tile_bytes, fixed, options.message_s, options.cores};
}

Plan planned(const Reshard& reshard, const std::vector<Task>& tasks, const Schedule& schedule, const Network& network,
             const Tiling& tiling, const Producer* producer) {
  const resharding::Nodes nodes = resharding::nodes_of(reshard, tasks, schedule, network, tiling);
  const std::string name =
      fmt::format("{}reshard {}", producer != nullptr ? "gemm " : "", to_string(schedule.strategy));
  Plan plan = resharding::write_plan(name, reshard, nodes, producer);
  plan.why = schedule.why;
  return plan;
}

Schedule choose(const Reshard& reshard, const std::vector<Task>& tasks, const Network& network,
                const ReshardOptions& options, const Tiling& tiling, std::vector<Priced>* prices) {
  const bool any = options.schedule.strategy == Strategy::automatic;
  Schedule best;
  double least = 0;
  std::string text;
  for (const Strategy strategy : kTried) {
    if (!any && strategy != options.schedule.strategy) continue;
    ScheduleOptions one = options.schedule;
    one.strategy = strategy;
    Schedule next = schedule(tasks, network, one);
    if (!any && prices == nullptr) return next;
    const double seconds = resharding::price(next, tasks, reshard, network, tiling);
    if (prices != nullptr) prices->push_back({strategy, seconds});
    const bool first = text.empty();
    text += fmt::format("{}{} {}", first ? "" : ", ", to_string(strategy), format_duration(seconds));
    if (!first && seconds >= least) continue;
    least = seconds;
    best = std::move(next);
    if (!any || least > kCloseEnough * best.lower_bound_s) continue;
    best.why = fmt::format("{} takes {} with latency and messages, and no schedule less than {}", to_string(strategy),
                           format_duration(least), format_duration(best.lower_bound_s));
    return best;
  }
  if (any) best.why = fmt::format("{} is the cheapest with latency and messages: {}", to_string(best.strategy), text);
  return best;
}

}  // namespace

Schedule choose(const Reshard& reshard, const std::vector<Task>& tasks, const Network& network,
                const ReshardOptions& options, std::vector<Priced>* prices) {
  return choose(reshard, tasks, network, options, tiling_of(options), prices);
}

Plan build(const Reshard& reshard, const Network& network, const ReshardOptions& options) {
  check_world(reshard, network);
  const std::vector<Task> all = tasks(reshard);
  const Tiling tiling = tiling_of(options);
  return planned(reshard, all, choose(reshard, all, network, options, tiling, nullptr), network, tiling, nullptr);
}

Plan build(const Reshard& reshard, const Schedule& schedule, const Network& network, const ReshardOptions& options) {
  check_world(reshard, network);
  return planned(reshard, tasks(reshard), schedule, network, tiling_of(options), nullptr);
}

Plan build(const Producer& producer_in, const Reshard& reshard, const Network& network, const ReshardOptions& options) {
  check_world(reshard, network);
  const Producer producer = validated(producer_in, reshard.num_ranks);
  resharding::check_stream(producer, reshard);
  const std::vector<Task> all = tasks(reshard);
  const Tiling tiling = tiling_of(options, producer.tile);
  return planned(reshard, all, choose(reshard, all, network, options, tiling, nullptr), network, tiling, &producer);
}

}  // namespace weft
