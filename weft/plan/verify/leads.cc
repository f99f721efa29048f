// Promise 4, for ever: no rank runs so far ahead of one that waits for it that a counter passes the waiter by 2^31.
// Executors compare modulo 2^32 and would take such a counter for one that has not been raised yet.
//
// Who waits in run e for a signal that rank q gives in run e - lag is at most lag + 1 runs ahead of q, and so on along
// a chain of such waits. So a wait for rank p is safe where p, in one or more steps, waits for the waiter's rank: where
// both lie in one strongly connected component of "waits for". The longest chain in it bounds how far ahead p can be.
#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/plan/verify/model.h"

namespace weft::verifying {
namespace {

// All waits of one rank for another.
struct Bond {
  std::int32_t to;        // the rank waited for
  std::int32_t lag;       // the smallest: what holds the waiter back
  std::int32_t most_lag;  // of any of them
  std::int32_t wait;      // the one whose counter has the largest total,
  std::uint32_t total;    // which is this
};

// Signals that several ranks give come from at most two runs later (races.cc, run-ahead).
constexpr std::int64_t kSharedLead = 2;

class Leads {
 public:
  explicit Leads(Model& model) : m_(model), bond_of_(model.acts_of.size(), -1), marks_(model.acts_of.size()) {}

  void run() {
    const std::int64_t before = m_.budget->held();
    collect();
    for (std::int32_t rank = 0; rank < int_size(marks_); ++rank)
      if (marks_[at(rank)].number == 0) find_components(rank);
    for (std::int32_t rank = 0; rank < int_size(marks_) && !m_.failed(); ++rank)
      for (const Bond& bond : bonds_of(rank))
        if (!is_bounded(rank, bond)) return complain(rank, bond);
    m_.budget->release(m_.budget->held() - before);
  }

 private:
  struct Mark {
    std::int32_t number = 0, low = 0, component = -1;  // 0: not seen yet
    std::int32_t next = 0;                             // of its bonds, to be followed
  };
  struct Component {
    std::int32_t ranks = 0, most_lag = 0;  // most_lag: by which one of its ranks is held back by another
  };

  std::span<const Bond> bonds_of(std::int32_t rank) const {
    return {bonds_.data() + first_[at(rank)], num(first_[at(rank + 1)] - first_[at(rank)])};
  }
  const CounterBlock& counter_of(std::int32_t wait) const { return m_.counters[at(m_.waits[at(wait)].counter)]; }
  static bool fits(std::uint32_t total, std::int64_t runs) { return runs * total <= INT32_MAX; }

  void collect() {
    first_.push_back(0);
    for (const Range acts : m_.acts_of) {
      for (std::int32_t a = acts.begin; a < acts.end; ++a) {
        const Act& act = m_.acts[at(a)];
        for (std::int32_t w = act.waits.begin; w < act.waits.end; ++w) {
          m_.ask_for_counter(w);
          add(act.rank, w);
        }
      }
      m_.hold(3 * std::int64_t{sizeof(Bond)} * (int_size(bonds_) - first_.back()));
      first_.push_back(int_size(bonds_));
    }
  }

  // Of a counter that one rank raises, any value tells that this rank has begun the run.
  void add(std::int32_t rank, std::int32_t wait) {
    const VWait& w = m_.waits[at(wait)];
    const CounterBlock& c = counter_of(wait);
    if (c.from == CounterBlock::kNobody || (w.at == 0 && w.lag == 0)) return;
    if (c.one_rank()) return add_bond(rank, c.from, wait, c.total);
    shared_ = true;
    if (!fits(c.total, kSharedLead + w.lag + 1))
      m_.problem(fmt::format("rank {} waits for {}, which grows by {} a run: by more than 2^31 before it looks again",
                             rank, m_.counter_name(c), c.total));
    m_.spend(c.signalers.size());
    for (const Signaler& s : m_.signalers_of(c))
      if (m_.implies(w, s)) add_bond(rank, m_.acts[at(s.act)].rank, wait, c.total);
  }

  void add_bond(std::int32_t rank, std::int32_t to, std::int32_t wait, std::uint32_t total) {
    if (to == rank) return;
    const std::int32_t lag = m_.waits[at(wait)].lag;
    std::int32_t& known = bond_of_[at(to)];
    if (known < first_.back()) {  // none of this rank's
      known = int_size(bonds_);
      bonds_.push_back({to, lag, lag, wait, total});
      return;
    }
    Bond& bond = bonds_[at(known)];
    bond.lag = std::min(bond.lag, lag), bond.most_lag = std::max(bond.most_lag, lag);
    if (total > bond.total) bond.wait = wait, bond.total = total;
  }

  // Tarjan's components, with a path of its own in place of recursion: a plan has up to 65536 ranks.
  void find_components(std::int32_t root) {
    enter(root);
    while (!path_.empty()) {
      const std::int32_t rank = path_.back();
      Mark& mark = marks_[at(rank)];
      if (mark.next < first_[at(rank + 1)]) {
        const std::int32_t to = bonds_[at(mark.next++)].to;
        if (marks_[at(to)].number == 0)
          enter(to);
        else if (marks_[at(to)].component == -1)
          mark.low = std::min(mark.low, marks_[at(to)].number);
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) marks_[at(path_.back())].low = std::min(marks_[at(path_.back())].low, mark.low);
      if (mark.low == mark.number) close(rank);
    }
  }
  void enter(std::int32_t rank) {
    marks_[at(rank)].number = marks_[at(rank)].low = ++num_seen_;
    marks_[at(rank)].next = first_[at(rank)];
    path_.push_back(rank);
    open_.push_back(rank);
  }
  // All that was opened since `rank` was is its component.
  void close(std::int32_t rank) {
    const std::int32_t id = int_size(components_);
    Component& component = components_.emplace_back();
    const auto begin = std::find(open_.rbegin(), open_.rend(), rank).base() - 1;
    for (auto member = begin; member != open_.end(); ++member) marks_[at(*member)].component = id;
    for (auto member = begin; member != open_.end(); ++member, ++component.ranks)
      for (const Bond& bond : bonds_of(*member))
        if (marks_[at(bond.to)].component == id) component.most_lag = std::max(component.most_lag, bond.lag);
    open_.erase(begin, open_.end());
  }

  bool is_bounded(std::int32_t rank, const Bond& bond) const {
    if (marks_[at(rank)].component != marks_[at(bond.to)].component) return false;
    const std::int64_t own = std::int64_t{bond.most_lag} + 1;
    const Component& all = components_[at(marks_[at(rank)].component)];
    if (fits(bond.total, (std::int64_t{all.ranks} - 1) * (std::int64_t{all.most_lag} + 1) + own)) return true;
    const auto back = bonds_of(bond.to);  // by the shortest chain, then
    m_.spend(std::ssize(back));
    return std::any_of(back.begin(), back.end(),
                       [&](const Bond& b) { return b.to == rank && fits(bond.total, std::int64_t{b.lag} + 1 + own); });
  }

  // Single tiles could tell more only of counters that several ranks raise.
  void complain(std::int32_t rank, const Bond& bond) {
    m_.certain = !shared_;
    m_.problem(
        fmt::format("rank {} waits for {}, which rank {} raises in every run without waiting for rank {}, also not by "
                    "way of others; "
                    "it could run ahead by more than 2^31 of that counter: let it wait for a signal of an earlier run",
                    rank, m_.counter_name(counter_of(bond.wait)), bond.to, rank));
  }

  Model& m_;
  std::vector<std::int32_t> bond_of_;  // by the rank waited for: the latest waiter's
  std::vector<Bond> bonds_;            // rank by rank
  std::vector<std::int32_t> first_;    // of each rank, in bonds_
  std::vector<Mark> marks_;
  std::vector<std::int32_t> path_, open_;
  std::vector<Component> components_;
  std::int32_t num_seen_ = 0;
  bool shared_ = false;
};

}  // namespace

void check_leads(Model& model) { Leads(model).run(); }

}  // namespace weft::verifying
