// Which triggers a thread fires when it looks at them: those whose waits are met, in listed order or in the plan's, and
// none that would only queue at a link.
#include <algorithm>

#include "weft/exec/cpu/executor.h"

namespace weft {

// Counters are compared modulo 2^32, so that an op may run for ever.
bool CpuExecutor::met(const Wait& w, std::int64_t lane) const {
  const std::uint64_t run = runs_ - 1;
  if (run < static_cast<std::uint64_t>(w.lag)) return true;
  const std::int64_t id = w.counter + (w.per > 0 ? lane / w.per : 0);
  const std::uint32_t at = static_cast<std::uint32_t>(run - static_cast<std::uint64_t>(w.lag)) * totals_[id] + w.at;
  // Acquire pairs with the signal's release; seq_cst is what bell.h asks of whoever may sleep.
  const std::uint32_t value = memory_.counter(program_.rank, id).load(std::memory_order_seq_cst);
  return static_cast<std::int32_t>(value - at) >= 0;
}

bool CpuExecutor::met(const Action& action, std::int64_t lane, std::uint32_t first_wait) const {
  for (const Wait& w : program_.of(action).subspan(first_wait))
    if (!met(w, lane)) return false;
  return true;
}

// Looks at the first wait that was not met when somebody last looked, and on from there.
bool CpuExecutor::shared_waits_met(Trigger& trigger) const {
  // Acquire: what another thread's look at the counters has made visible to it is visible here.
  const std::uint32_t before = trigger.met.load(std::memory_order_acquire);
  if (before == trigger.shared_waits) return true;
  std::uint32_t now = before;
  while (now < trigger.shared_waits && met(program_.of(*trigger.action)[now], 0)) ++now;
  if (now > before) trigger.met.store(now, std::memory_order_release);
  return now == trigger.shared_waits;
}

bool CpuExecutor::claim(std::atomic<std::uint32_t>& claimed, std::uint32_t seen) const {
  if (!solo_) return claimed.compare_exchange_strong(seen, mark(), std::memory_order_acquire);
  claimed.store(mark(), std::memory_order_relaxed);
  return true;
}

void CpuExecutor::fire(Trigger& trigger, std::int64_t lane, Workbench& bench) {
  lanes_.run(*trigger.action, lane, bench);
  // Whoever sees the count fall (finish, start) sees what the lane stored here.
  if (trigger.reads_input) add<std::int64_t>(input_triggers_left_, -1);
  add<std::int64_t>(triggers_left_, -1);
}

void CpuExecutor::queue_lanes() {
  for (const auto& trigger : triggers_)
    for (std::int64_t lane = 0; lane < trigger->action->lanes; ++lane)
      queue_.push_back({trigger->action->order + lane * trigger->action->order_step, lane, trigger.get()});
  std::stable_sort(queue_.begin(), queue_.end(), [](const Queued& a, const Queued& b) { return a.order < b.order; });
}

// Whoever finds a chain of closed triggers shortens it; all that is ever stored is true, so threads need no order here.
std::uint32_t CpuExecutor::next_open(std::uint32_t trigger) const {
  std::uint32_t next = open_[trigger].load(std::memory_order_relaxed);
  while (next != trigger) {
    const std::uint32_t beyond = open_[next].load(std::memory_order_relaxed);
    if (beyond != next) open_[trigger].store(beyond, std::memory_order_relaxed);
    trigger = next;
    next = beyond;
  }
  return trigger;
}

// Fires what is ready, as far as the look goes; returns whether any was. Triggers are looked at as they are listed, but
// between the tiles of steps, where a look is short, each begins one further, so that all have their turn.
bool CpuExecutor::fire_ready(Workbench& bench, Look look) {
  if (links_) links_->deliver();
  bench.held_until = Transit::kNothing;
  if (triggers_left_.load(std::memory_order_relaxed) == 0) return false;
  if (!queue_.empty()) return fire_in_order(bench, look);
  const std::int64_t fires = look.fires;
  const auto size = static_cast<std::uint32_t>(triggers_.size());
  const std::uint32_t begin = look.between_tiles && !steps_.empty() ? add<std::uint32_t>(turn_, 1) % size : 0;
  for (std::uint32_t t = next_open(begin); t < size && look.lanes > 0; t = next_open(t + 1))
    fire_lanes(*triggers_[t], bench, &look);
  for (std::uint32_t t = begin > 0 ? next_open(0) : size; t < begin && look.lanes > 0; t = next_open(t + 1))
    fire_lanes(*triggers_[t], bench, &look);
  return look.fires < fires;
}

void CpuExecutor::fire_lanes(Trigger& trigger, Workbench& bench, Look* look) {
  if (!shared_waits_met(trigger)) {
    --look->lanes;
    return;
  }
  const std::int64_t lanes = trigger.action->lanes;
  const std::int64_t before = trigger.first.load(std::memory_order_relaxed);
  std::int64_t first = before;
  bool all_claimed = true;  // of those from `first` on that were looked at
  for (std::int64_t lane = first; lane < lanes && look->lanes > 0; ++lane) {
    const std::uint32_t seen = trigger.claimed[lane].load(std::memory_order_relaxed);
    if (seen == mark()) {
      if (all_claimed) first = lane + 1;
      continue;
    }
    --look->lanes;
    const bool ready = met(*trigger.action, lane, trigger.shared_waits);
    if (ready && held_back(trigger, *look, bench)) break;
    if (ready && claim(trigger.claimed[lane], seen)) {
      fire(trigger, lane, bench);
      if (all_claimed) first = lane + 1;
      if (--look->fires == 0) look->lanes = 0;
    } else {
      all_claimed = false;
    }
  }
  if (first == before) return;
  trigger.first.store(first, std::memory_order_relaxed);
  if (first == lanes) open_[trigger.index].store(trigger.index + 1, std::memory_order_relaxed);
}

// The same where the plan has an order. After every lane it looks from the front again: what has become ready there
// meanwhile goes before what is listed later.
bool CpuExecutor::fire_in_order(Workbench& bench, Look look) {
  bool fired = false, all_claimed = true;
  std::size_t first = queue_first_.load(std::memory_order_relaxed);
  for (std::size_t at = first; at < queue_.size() && look.lanes > 0; ++at) {
    Trigger& trigger = *queue_[at].trigger;
    const std::int64_t lane = queue_[at].lane;
    std::atomic<std::uint32_t>& claimed = trigger.claimed[lane];
    const std::uint32_t seen = claimed.load(std::memory_order_relaxed);
    if (seen == mark()) {
      if (all_claimed) first = at + 1;
      continue;
    }
    --look.lanes;
    const bool ready = shared_waits_met(trigger) && met(*trigger.action, lane, trigger.shared_waits);
    if (!ready || held_back(trigger, look, bench) || !claim(claimed, seen)) {
      all_claimed = false;
      continue;
    }
    fire(trigger, lane, bench);
    fired = true;
    if (--look.fires == 0) break;
    if (links_) links_->deliver();
    all_claimed = true;
    at = first - 1;  // and one on
  }
  if (first > queue_first_.load(std::memory_order_relaxed)) queue_first_.store(first, std::memory_order_relaxed);
  return fired;
}

// What is ready, but would only queue, is left for later.
bool CpuExecutor::held_back(const Trigger& trigger, const Look& look, Workbench& bench) const {
  for (const Channel* channel : trigger.may_fill)
    if (const std::int64_t room = channel->room_at(look.between_tiles); room != Transit::kNothing) {
      bench.held_until = std::min(bench.held_until, room);
      return true;
    }
  return false;
}

}  // namespace weft
