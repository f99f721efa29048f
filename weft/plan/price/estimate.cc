#include "weft/plan/price/estimate.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/price/cost.h"
#include "weft/plan/verify/model.h"

namespace weft {
namespace {

using estimating::Cost;
using estimating::Costs;
using verifying::Act;
using verifying::Model;
using verifying::VPiece;

// When the first and the last lane are there.
struct Front {
  double first = 0, last = 0;

  void include(const Front& other) {
    first = std::max(first, other.first);
    last = std::max(last, other.last);
  }
  double at(double part) const { return first + std::max(0.0, last - first) * part; }
};

class EventModel {
 public:
  EventModel(const Model& model, const Cluster& cluster, const EstimateHint& hint)
      : m_(model),
        cluster_(cluster),
        costs_(model, cluster_, hint),
        fronts_(model.counters.size()),
        ranks_(model.acts_of.size()),
        host_of_(model.acts_of.size()) {
    for (int rank = 0; rank < int_size(ranks_); ++rank) host_of_[at(rank)] = cluster.host_of(rank);
    num_hosts_ = host_of_.empty() ? 0 : host_of_.back() + 1;
    num_ends_ = cluster.fabric == Fabric::pairs ? num_hosts_ : 1;
    links_.resize(ranks_.size() * num_ends_);
    sent_.resize(num(num_hosts_) * num_ends_);
    received_.resize(num(num_hosts_));
    for (const Act& act : m_.acts) add_bytes(act);
    for (Rank& rank : ranks_)
      if (rank.steps > 0) rank.slower = 1 + rank.receiving / rank.steps;
  }

  Estimate run(const std::vector<std::int32_t>& order) {
    for (const std::int32_t a : order) play(m_.acts[a]);
    for (const Rank& rank : ranks_) {
      out_.compute_seconds = std::max(out_.compute_seconds, rank.compute);
      out_.comm_seconds = std::max(out_.comm_seconds, rank.local_seconds);
      out_.seconds = std::max(out_.seconds, rank.busy);
    }
    for (const double bytes : sent_) out_.comm_seconds = std::max(out_.comm_seconds, network_seconds(bytes));
    if (cluster_.fabric == Fabric::nic)
      for (const double bytes : received_) out_.comm_seconds = std::max(out_.comm_seconds, network_seconds(bytes));
    out_.seconds = std::max(out_.seconds, out_.comm_seconds) + cluster_.run_s;
    out_.compute_seconds += cluster_.run_s;
    return out_;
  }

 private:
  struct Rank {
    double steps_free = 0, triggers_free = 0;
    double busy = 0, compute = 0, local_seconds = 0;
    double steps = 0, receiving = 0;  // CPU time of its steps, and of taking what other hosts send
    double slower = 1;                // how much longer its steps take beside that
  };
  // What a rank uses of one link: its host's only one, or that to one other host.
  struct Use {
    double bytes = 0, free = 0;
    double pending = 0;           // bytes of the action being played
    const Act* latest = nullptr;  // that used it, and when it did
    Front sent;
  };

  double network_seconds(double bytes) const { return bytes / cluster_.network.bytes_per_s; }
  bool same_host(std::int32_t a, std::int32_t b) const { return host_of_[a] == host_of_[b]; }
  std::size_t end_of(std::int32_t to) const { return num_ends_ == 1 ? 0 : num(host_of_[to]); }
  Use& use(std::int32_t from, std::int32_t to) { return links_[from * num_ends_ + end_of(to)]; }
  double sent_by_host(std::int32_t from, std::int32_t to) const {
    return sent_[at(host_of_[from]) * num_ends_ + end_of(to)];
  }

  // CPU time of a wire at one end.
  double wire_seconds(double bytes, double messages) const {
    return bytes * cluster_.wire_byte_s + messages * cluster_.wire_message_s;
  }

  void add_bytes(const Act& act) {
    if (act.is_step) ranks_[act.rank].steps += costs_.of(act).busy;
    for (const VPiece& p : m_.pieces_of(act.targets)) {
      if (p.rank == act.rank) continue;
      if (same_host(p.rank, act.rank)) {
        ranks_[act.rank].local_seconds += costs_.store_seconds(act, p);
        continue;
      }
      use(act.rank, p.rank).bytes += costs_.sent_bytes(act, p);
      sent_[at(host_of_[act.rank]) * num_ends_ + end_of(p.rank)] += costs_.sent_bytes(act, p);
      received_[host_of_[p.rank]] += costs_.sent_bytes(act, p);
      ranks_[p.rank].receiving += wire_seconds(costs_.sent_bytes(act, p), std::max(act.lanes, 1u));
    }
  }

  Front ready(const Act& act) const {
    Front out;
    for (const verifying::VWait& w : m_.waits_of(act)) {
      if (w.lag > 0 || w.at == 0) continue;
      const Front& front = fronts_[w.counter];
      if (w.per == 0 || m_.counters[w.counter].span == 1) {
        out.include({front.last, front.last});
      } else {
        const double part = static_cast<double>(w.per - 1) / static_cast<double>(std::max(act.lanes, 2u) - 1);
        out.include({front.at(part), front.last});
      }
    }
    return out;
  }

  // Occupies something that serves one action after another, lane by lane behind `ready`.
  static Front occupy(double* free, const Front& ready, double duration, double lanes) {
    const double begin = std::max(*free, ready.first);
    const double end = std::max({begin + duration, ready.last + duration / lanes, begin + duration / lanes});
    *free = end;
    return {begin + duration / lanes, end};
  }

  // Puts what the action stores on other hosts on its links, each as soon as it is made. Where several ranks share a
  // link, each has the part of it that it uses of its bytes.
  void send(const Act& act, const Front& made, double lanes) {
    for (const VPiece& p : m_.pieces_of(act.targets))
      if (!same_host(p.rank, act.rank)) use(act.rank, p.rank).pending += costs_.sent_bytes(act, p);
    for (const VPiece& p : m_.pieces_of(act.targets)) {
      if (same_host(p.rank, act.rank)) continue;
      Use& link = use(act.rank, p.rank);
      if (link.pending == 0) continue;
      const double part = link.bytes / sent_by_host(act.rank, p.rank);
      link.sent = occupy(&link.free, made, network_seconds(link.pending) / part, lanes);
      link.latest = &act;
      link.pending = 0;
      out_.seconds = std::max(out_.seconds, link.sent.last + cluster_.network.latency_s);
    }
  }

  // When what the action stores on that rank's host has been sent; what it does not store there waits for nothing.
  const Front& sent_to(const Act& act, std::int32_t rank, const Front& made) {
    const Use& link = use(act.rank, rank);
    return link.latest == &act ? link.sent : made;
  }

  void play(const Act& act) {
    Rank& rank = ranks_[act.rank];
    Cost cost = costs_.of(act);
    const double lanes = std::max(act.lanes, 1u);
    if (act.is_step) cost.busy *= rank.slower;
    for (const VPiece& p : m_.pieces_of(act.targets))
      if (!same_host(p.rank, act.rank)) cost.busy += wire_seconds(costs_.sent_bytes(act, p), lanes);
    rank.busy += cost.busy;
    rank.compute += cost.compute;
    Front made = ready(act);
    if (act.is_step || act.targets.size() > 0)
      made = occupy(act.is_step ? &rank.steps_free : &rank.triggers_free, made, cost.busy, lanes);
    else  // only signals: whoever has a moment does it
      made = {made.first + cost.busy / lanes, made.last + cost.busy / lanes};
    send(act, made, lanes);
    out_.seconds = std::max(out_.seconds, made.last);
    for (const verifying::VSignal& g : m_.signals_of(act)) {
      const bool here = same_host(g.rank, act.rank);
      const double delay = g.rank == act.rank ? 0
                           : here             ? std::max(cluster_.signal_s, cluster_.local.latency_s)
                                              : cluster_.network.latency_s;
      const Front& front = here ? made : sent_to(act, g.rank, made);
      fronts_[g.counter].include({front.first + delay, front.last + delay});
    }
  }

  const Model& m_;
  const Cluster cluster_;
  const Costs costs_;
  std::vector<Front> fronts_;  // of each block of counters
  std::vector<Rank> ranks_;
  std::vector<int> host_of_;
  int num_hosts_ = 0;
  std::size_t num_ends_ = 1;             // links that leave a host
  std::vector<Use> links_;               // of rank r, to end e: [r * num_ends_ + e]
  std::vector<double> sent_, received_;  // by host, the first by end too
  Estimate out_;
};

}  // namespace

Cluster fitted(Cluster cluster, int num_ranks) {
  if (num_ranks > cluster.size())
    cluster.ranks_per_host = static_cast<int>(ceil_div(num_ranks, std::max(cluster.num_hosts, 1)));
  return cluster;
}

Estimate estimate(const Plan& plan, const Cluster& cluster, const EstimateHint& hint) {
  const Expander expander(plan);
  Budget budget(Budget::kMostTimes);  // what a proof may cost is for verify() to say
  std::vector<std::string> problems;
  for (const bool by_lane : {false, true}) {  // as in verify(): tile by tile only where ranges do not do
    problems.clear();
    try {
      Model model(plan, expander, by_lane, &budget, &problems);
      std::vector<std::int32_t> order;
      if (problems.empty()) verifying::check_order(model, &order);
      if (problems.empty()) return EventModel(model, fitted(cluster, plan.num_ranks), hint).run(order);
    } catch (const verifying::Misaligned&) {
      continue;
    }
  }
  bad_input("plan \"{}\" is not runnable: {}", plan.name, problems.front());
}

}  // namespace weft
