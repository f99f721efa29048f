// Which actions may have their lanes run in any order. Promise 2 is proved for steps whose lanes run as they are
// listed and for triggers whose lanes fire as each becomes ready; a GPU takes lanes in pairs and in blocks that share
// operands, and a table of tiles in groups of rows.
//
// Let an action begin only when the waits of all its lanes are met. That adds dependences and takes none away, so where
// such a run ends, each of its actions could have run its lanes in any order, whatever the others do: execution is
// confluent. A proof by whole ranges was such a run. Of one that looked at single tiles, actions begin whole as long as
// some can; where none can, the first that stands in the way goes lane by lane, steps before triggers. So what is found
// is enough, though a smaller set may do.
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "weft/plan/verify/model.h"
#include "weft/plan/verify/waiters.h"

namespace weft::verifying {
namespace {

class WholeRun {
 public:
  explicit WholeRun(const Model& model) : model_(model), waiters_(model), unit_of_(model.acts.size()) {
    for (std::int32_t a = 0; a < int_size(model.acts); ++a) {
      const bool goes_on = a > 0 && model.acts[at(a)].rank == model.acts[at(a - 1)].rank &&
                           model.acts[at(a)].index == model.acts[at(a - 1)].index;
      if (!goes_on) units_.push_back({{a, a}});
      Unit& unit = units_.back();
      ++unit.acts.end;
      unit.waiting += !waiters_.is_free(a);
      unit_of_[at(a)] = int_size(units_) - 1;
    }
    for (const Range& acts : model.acts_of) next_.push_back(unit_at(acts.begin));
  }

  // The first lane of each action that had to go lane by lane.
  std::vector<std::int32_t> run() {
    for (std::int32_t rank = 0; rank < int_size(next_); ++rank) advance(rank);
    for (std::int32_t u = 0; u < int_size(units_); ++u) {
      if (is_step(u)) continue;
      if (units_[at(u)].waiting == 0)
        fire(u);
      else if (units_[at(u)].waiting < units_[at(u)].acts.size())
        stands_in_the_way(u);
    }
    std::vector<std::int32_t> out;
    for (std::size_t done = 0;;) {
      for (; done < ready_.size(); ++done) finish(ready_[done]);
      if (ready_.size() == model_.acts.size()) return out;
      while (!in_the_way_.empty() && !waits_whole(in_the_way_.top().second)) in_the_way_.pop();
      if (in_the_way_.empty()) return out;  // never: the plan is proved
      const std::int32_t first = in_the_way_.top().second;
      out.push_back(units_[at(first)].acts.begin);
      dissolve(first);
    }
  }

 private:
  struct Unit {
    Range acts;
    std::int32_t waiting = 0;  // lanes
    std::int32_t taken = 0;    // lanes of a step
    bool whole = true;
  };

  const Act& first_of(std::int32_t u) const { return model_.acts[at(units_[at(u)].acts.begin)]; }
  bool is_step(std::int32_t u) const { return first_of(u).is_step; }
  std::int32_t unit_at(std::int32_t act) const {
    return act == int_size(model_.acts) ? int_size(units_) : unit_of_[at(act)];
  }
  std::int32_t end_of(std::int32_t rank) const { return unit_at(model_.acts_of[at(rank)].end); }

  // Takes the steps of a rank as far as they go: all lanes of one, or those that are next.
  void advance(std::int32_t rank) {
    for (std::int32_t& u = next_[at(rank)]; u < end_of(rank); ++u) {
      if (!is_step(u)) continue;
      Unit& unit = units_[at(u)];
      if (waits_whole(u)) {
        if (waiters_.is_free(unit.acts.begin)) stands_in_the_way(u);
        return;
      }
      for (; unit.taken < unit.acts.size(); ++unit.taken) {
        const std::int32_t a = unit.acts.begin + unit.taken;
        if (!unit.whole && !waiters_.is_free(a)) return;
        ready_.push_back(a);
      }
    }
  }

  void fire(std::int32_t u) {
    for (std::int32_t a = units_[at(u)].acts.begin; a < units_[at(u)].acts.end; ++a)
      if (waiters_.is_free(a)) ready_.push_back(a);
  }

  void finish(std::int32_t a) {
    waiters_.count(model_.acts[at(a)], [&](std::int32_t freed) {
      const std::int32_t u = unit_of_[at(freed)];
      Unit& unit = units_[at(u)];
      --unit.waiting;
      if (is_step(u))
        advance(first_of(u).rank);
      else if (!unit.whole)
        ready_.push_back(freed);
      else if (unit.waiting == 0)
        fire(u);
      else if (unit.waiting == unit.acts.size() - 1)
        stands_in_the_way(u);
    });
  }

  bool waits_whole(std::int32_t u) const { return units_[at(u)].whole && units_[at(u)].waiting > 0; }
  // Some lane of it could run now.
  void stands_in_the_way(std::int32_t u) { in_the_way_.push({!is_step(u), u}); }

  void dissolve(std::int32_t u) {
    units_[at(u)].whole = false;
    if (is_step(u))
      advance(first_of(u).rank);
    else
      fire(u);
  }

  const Model& model_;
  Waiters waiters_;
  std::vector<Unit> units_;            // actions, rank by rank
  std::vector<std::int32_t> unit_of_;  // of each act
  std::vector<std::int32_t> next_;     // per rank: no step is left before this unit
  std::vector<std::int32_t> ready_;
  using Candidate = std::pair<bool, std::int32_t>;                                              // a trigger?, unit
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<Candidate>> in_the_way_;  // or have been
};

}  // namespace

std::vector<std::int32_t> find_one_by_one(const Model& model) { return WholeRun(model).run(); }

}  // namespace weft::verifying
