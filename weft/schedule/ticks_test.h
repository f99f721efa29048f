// The slow twin of timing.h: a clock that ticks, and at every tick every stage and every link is asked whether it can
// end or begin something. Costs are whole ticks. Nothing here is shared with the fast version but the meaning of
// costs.h.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/schedule/costs.h"
#include "weft/schedule/schedule.h"

namespace weft::pipeline {

class Ticks {
 public:
  Ticks(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs), stages_(schedule.stages.size()) {}

  // The tick at which all is done; none where nothing can ever move again.
  std::optional<int> run() {
    for (now_ = 0;; ++now_) {
      while (settle()) {
      }
      if (all_done()) return now_;
      if (!anything_under_way()) return {};
    }
  }

 private:
  using Key = std::tuple<bool, int, int>;  // forward?, position it is for, micro-batch
  struct Stage {
    std::size_t next = 0;
    int computing_until = -1, sending_until = 0, receiving_until = -1;
    bool computing = false, receiving = false;
  };
  struct Link {
    std::deque<std::pair<Key, int>> queue;       // what, how long
    std::optional<std::pair<Key, int>> carried;  // what, until when
  };

  int ticks(double seconds) const { return static_cast<int>(seconds); }
  bool blocking() const { return costs_.transfers == Transfers::blocking; }
  int position(int s, const WorkItem& item) const { return item.chunk * schedule_.num_stages() + s; }
  bool all_done() const {
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if (stages_[s].next < schedule_.stages[s].size()) return false;
    return true;
  }
  bool anything_under_way() const {
    for (const Stage& s : stages_)
      if (s.computing || s.receiving || s.sending_until > now_) return true;
    for (const auto& [ends, link] : links_)
      if (link.carried || !link.queue.empty()) return true;
    return false;
  }

  // Whatever can change at this tick, once; true where something did.
  bool settle() {
    bool changed = false;
    for (int s = 0; s < schedule_.num_stages(); ++s) {
      changed |= end_item(s);
      changed |= begin_item(s);
    }
    for (auto& [ends, link] : links_) {
      if (link.carried && link.carried->second == now_)
        arrived_.insert(link.carried->first), link.carried.reset(), changed = true;
      if (!link.carried && !link.queue.empty()) {
        link.carried = {link.queue.front().first, now_ + link.queue.front().second};
        link.queue.pop_front(), changed = true;
      }
    }
    return changed;
  }

  bool end_item(int s) {
    Stage& stage = stages_[at(s)];
    if (!stage.computing || stage.computing_until != now_) return false;
    stage.computing = false;
    stage.sending_until = now_;
    const WorkItem item = schedule_.stages[at(s)][stage.next++];
    const int p = position(s, item), last = schedule_.num_positions() - 1;
    const bool forward = item.work == Work::forward;
    if (!forward && item.work != Work::backward && item.work != Work::backward_input) return true;
    if (forward ? p == last : p == 0) {
      if (forward) arrived_.insert({false, last, item.micro_batch}), offered_[{false, last, item.micro_batch}] = 0;
      return true;
    }
    const Key key{forward, forward ? p + 1 : p - 1, item.micro_batch};
    const StageCost& cost = costs_.stages[at(s)];
    const int to = std::get<1>(key) % schedule_.num_stages();
    const int long_ = to == s ? 0 : ticks(forward ? cost.send_forward_s : cost.send_backward_s);
    if (blocking()) {
      offered_[key] = long_;
      stage.sending_until = now_ + long_;
    } else {
      links_[{s, to}].queue.push_back({key, long_});
    }
    return true;
  }

  bool begin_item(int s) {
    Stage& stage = stages_[at(s)];
    if (stage.computing || stage.next >= schedule_.stages[at(s)].size()) return false;
    const WorkItem& item = schedule_.stages[at(s)][stage.next];
    const int p = position(s, item);
    const bool forward = item.work == Work::forward;
    const bool waits = forward ? p > 0 : item.work == Work::backward || item.work == Work::backward_input;
    if (waits && !received(stage, {forward, p, item.micro_batch})) return false;
    if (stage.sending_until > now_) return false;
    stage.receiving = false;
    stage.computing = true;
    stage.computing_until = now_ + ticks(costs_.stages[at(s)].of(item.work) / schedule_.num_chunks);
    return true;
  }

  bool received(Stage& stage, const Key& key) {
    if (!blocking()) return arrived_.count(key) > 0;
    if (!stage.receiving) {
      if (offered_.count(key) == 0) return false;
      stage.receiving = true;
      stage.receiving_until = now_ + offered_[key];
    }
    return stage.receiving_until <= now_;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<Stage> stages_;
  std::map<std::pair<int, int>, Link> links_;
  std::set<Key> arrived_;
  std::map<Key, int> offered_;  // blocking: what is being sent or was, and how long it takes
  int now_ = 0;
};

}  // namespace weft::pipeline
