// When a wait has lasted long: whether to give up, on whom, and in which words. Nothing here is on the way of a run
// that goes well.
#include <algorithm>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/exec/cpu/executor.h"
#include "weft/transport/transport.h"

namespace weft {

// After a sleep without news: is it time to give up, and on whom?
void CpuExecutor::stuck(const Goal& goal, std::chrono::nanoseconds waited) const {
  const Action* action = goal.action;
  std::int64_t lane = goal.lane;
  if (waited < std::min(options_.patience.silence, options_.patience.total)) return;
  if (action == nullptr) {  // some trigger has not fired: blame the first
    for (const auto& trigger : triggers_)
      for (std::int64_t i = 0; i < trigger->action->lanes && action == nullptr; ++i)
        if (trigger->claimed[i].load(std::memory_order_relaxed) != mark()) action = trigger->action, lane = i;
    if (action == nullptr) return;
  }
  for (const Wait& wait : program_.of(*action)) {
    Action single = *action;  // judge this wait alone
    single.waits = {static_cast<std::int32_t>(&wait - program_.waits.data()),
                    static_cast<std::int32_t>(&wait - program_.waits.data() + 1)};
    if (!met(single, lane)) judge(*action, lane, wait, waited);
  }
}

int CpuExecutor::signaler_of(std::int64_t counter) const {
  for (int rank = 0; rank < plan_.num_ranks; ++rank) {
    const Program program = rank == program_.rank ? program_ : expander_.program(rank);
    for (const Action& action : program.actions)
      for (const Signal& g : program.signals_of(action)) {
        const std::int64_t span = g.per > 0 ? ceil_div(action.lanes, g.per) : 1;
        if (g.rank == program_.rank && counter >= g.counter && counter < g.counter + span) return rank;
      }
  }
  return program_.rank;
}

void CpuExecutor::judge(const Action& action, std::int64_t lane, const Wait& wait,
                        std::chrono::nanoseconds waited) const {
  const std::int64_t id = wait.counter + (wait.per > 0 ? lane / wait.per : 0);
  const int peer = memory_.world_rank[signaler_of(id)];
  const auto silent = transport_.silent_for(peer);
  const bool dead = silent > options_.patience.silence;
  if (!dead && waited < options_.patience.total) {  // late, but alive: said once per run
    if (has_log() && late_in_.exchange(runs_) != runs_)
      log_line(
          fmt::format("rank {} has waited {:.1f} s for rank {} (host {}), which is late but alive; it last reported "
                      "step {}",
                      transport_.rank(), seconds(waited), peer, transport_.host(peer), transport_.progress_of(peer)));
    return;
  }
  const std::uint32_t run = mark() - 1 - static_cast<std::uint32_t>(wait.lag);
  const std::uint32_t seen = memory_.counter(program_.rank, id).load() - run * totals_[id];
  const std::string what = fmt::format(
      "rank {} waited {:.1f} s for {} from rank {} (host {}) in {}, tile {} {}: saw {} of {} updates; rank {} last "
      "reported step {}",
      transport_.rank(), seconds(waited), expander_.counter_name(static_cast<int>(id), program_.rank), peer,
      transport_.host(peer), describe(plan_, program_, &action - program_.actions.data()), lane,
      action.box.dims > 0 ? to_string(lane_box(action.box, action.tile, lane)) : "", static_cast<std::int32_t>(seen),
      wait.at, peer, transport_.progress_of(peer));
  if (dead)
    throw Error(Code::peer_failed,
                fmt::format("rank {} (host {}) has been silent for {:.1f} s: {}", peer, transport_.host(peer),
                            seconds(silent), what),
                peer, transport_.host(peer));
  // A peer that is alive and has not opened its output has most likely begun another op first.
  const bool unopened = expander_.purpose_of(static_cast<int>(id), program_.rank) == Purpose::open;
  throw Error(Code::deadline, what + (unopened ? "; do all ranks start their ops in the same order?" : ""), peer,
              transport_.host(peer));
}

}  // namespace weft
