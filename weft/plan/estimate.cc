#include "weft/plan/estimate.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/plan/verify_model.h"

namespace weft {
namespace {

using verifying::Act;
using verifying::Model;
using verifying::VPiece;

// Rows pooled into one row of an embedding bag: known only at run time, so a common number.
constexpr double kPooledRows = 32;

struct Cost {
  double busy = 0;     // of the rank, seconds
  double compute = 0;  // the part of it that is the producer's
  double network_bytes = 0;
};

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
  EventModel(const Model& model, const Cluster& cluster)
      : m_(model),
        cluster_(cluster),
        fronts_(model.counters.size()),
        ranks_(model.acts_of.size()),
        hosts_(cluster.num_hosts),
        host_of_(model.acts_of.size()) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) host_of_[rank] = cluster.host_of(static_cast<int>(rank));
    for (const Act& act : m_.acts) add_bytes(act);
  }

  Estimate run(const std::vector<std::int32_t>& order) {
    for (const std::int32_t a : order) play(m_.acts[a]);
    for (const Rank& rank : ranks_) {
      out_.compute_seconds = std::max(out_.compute_seconds, rank.compute);
      out_.comm_seconds = std::max(out_.comm_seconds, rank.local_bytes / cluster_.local.bytes_per_s);
      out_.seconds = std::max(out_.seconds, rank.busy);
    }
    for (const Host& host : hosts_)
      out_.comm_seconds =
          std::max(out_.comm_seconds, std::max(host.sent, host.received) / cluster_.network.bytes_per_s);
    out_.seconds = std::max({out_.seconds, out_.compute_seconds, out_.comm_seconds});
    return out_;
  }

 private:
  struct Rank {
    double steps_free = 0, triggers_free = 0, network_free = 0;
    double busy = 0, compute = 0;
    double local_bytes = 0, network_bytes = 0;
  };
  struct Host {
    double sent = 0, received = 0;
  };

  double bytes(const VPiece& p) const {
    return static_cast<double>(m_.boxes[p.box].volume() *
                               static_cast<std::int64_t>(size_of(m_.plan->buffers[p.buffer].dtype)));
  }
  bool same_host(std::int32_t a, std::int32_t b) const { return host_of_[a] == host_of_[b]; }

  void add_bytes(const Act& act) {
    for (const VPiece& p : m_.pieces_of(act.targets)) {
      if (p.rank == act.rank) continue;
      if (same_host(p.rank, act.rank)) {
        ranks_[act.rank].local_bytes += bytes(p);
      } else {
        ranks_[act.rank].network_bytes += bytes(p);
        hosts_[host_of_[act.rank]].sent += bytes(p);
        hosts_[host_of_[p.rank]].received += bytes(p);
      }
    }
  }

  // The tiles of one step: arithmetic or memory, whichever is slower.
  double produce(const Act& act) const {
    const Producer& p = m_.plan->producers[act.producer];
    const Box& box = m_.boxes[act.box];
    const auto rows = static_cast<double>(box.size(0)), cols = static_cast<double>(box.size(1)),
               k = static_cast<double>(p.k);
    switch (p.kind) {
      case ProducerKind::gemm:
      case ProducerKind::gemv:
        return std::max(2 * rows * cols * k / cluster_.flops_per_s,
                        (rows * k * 4 + cols * k * static_cast<double>(size_of(p.weight))) / cluster_.read_bytes_per_s);
      case ProducerKind::embedding_bag:
        return rows * cols * 4 * kPooledRows / cluster_.read_bytes_per_s;
      case ProducerKind::copy:
        return rows * cols * 4 / cluster_.read_bytes_per_s;
      case ProducerKind::window:
        return 0;  // the caller's own time; its stores are counted as the targets' are
    }
    return 0;
  }

  Cost cost(const Act& act) const {
    Cost out;
    if (act.box < 0) return out;
    const double per_lane = static_cast<double>(act.lanes) * cluster_.step_s;
    out.compute = act.is_step ? produce(act) + per_lane : 0;
    out.busy = act.is_step ? out.compute : act.targets.size() > 0 ? per_lane : 0;
    for (const VPiece& p : m_.pieces_of(act.sources)) out.busy += bytes(p) / cluster_.read_bytes_per_s;
    bool copies = !act.is_step && act.sources.size() > 0;
    for (const VPiece& p : m_.pieces_of(act.targets)) {
      const bool to_peer = p.rank != act.rank && same_host(p.rank, act.rank);
      double store = bytes(p) / (to_peer ? cluster_.local.bytes_per_s : cluster_.write_bytes_per_s);
      // A trigger's last source and first target are one copy: at least what copying costs here.
      if (copies) store = std::max(store, bytes(p) / cluster_.copy_bytes_per_s - bytes(p) / cluster_.read_bytes_per_s);
      copies = false;
      out.busy += store;
      if (!same_host(p.rank, act.rank)) out.network_bytes += bytes(p);
    }
    return out;
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

  void play(const Act& act) {
    Rank& rank = ranks_[act.rank];
    const Cost c = cost(act);
    const auto lanes = static_cast<double>(std::max(act.lanes, 1u));
    rank.busy += c.busy;
    rank.compute += c.compute;
    Front made = ready(act);
    if (act.is_step)
      made = occupy(&rank.steps_free, made, c.busy, lanes);
    else if (act.targets.size() > 0)
      made = occupy(&rank.triggers_free, made, c.busy, lanes);
    Front sent = made;
    if (c.network_bytes > 0) {
      const double part = rank.network_bytes / hosts_[host_of_[act.rank]].sent;
      sent = occupy(&rank.network_free, made, c.network_bytes / (cluster_.network.bytes_per_s * part), lanes);
    }
    out_.seconds =
        std::max({out_.seconds, made.last, c.network_bytes > 0 ? sent.last + cluster_.network.latency_s : 0});
    for (const verifying::VSignal& g : m_.signals_of(act)) {
      const bool here = same_host(g.rank, act.rank);
      const double delay = g.rank == act.rank ? 0
                           : here             ? std::max(cluster_.signal_s, cluster_.local.latency_s)
                                              : cluster_.network.latency_s;
      const Front& front = here ? made : sent;
      fronts_[g.counter].include({front.first + delay, front.last + delay});
    }
  }

  const Model& m_;
  const Cluster cluster_;
  std::vector<Front> fronts_;  // of each block of counters
  std::vector<Rank> ranks_;
  std::vector<Host> hosts_;
  std::vector<int> host_of_;
  Estimate out_;
};

}  // namespace

Cluster fitted(Cluster cluster, int num_ranks) {
  if (num_ranks > cluster.size())
    cluster.ranks_per_host = static_cast<int>(ceil_div(num_ranks, std::max(cluster.num_hosts, 1)));
  return cluster;
}

Estimate estimate(const Plan& plan, const Cluster& cluster) {
  const Expander expander(plan);
  std::vector<std::string> problems;
  for (const bool by_lane : {false, true}) {  // as in verify(): tile by tile only where ranges do not do
    problems.clear();
    try {
      Model model(plan, expander, by_lane, &problems);
      std::vector<std::int32_t> order;
      if (problems.empty()) verifying::check_order(model, &order);
      if (problems.empty()) return EventModel(model, fitted(cluster, plan.num_ranks)).run(order);
    } catch (const verifying::Misaligned&) {
      continue;
    }
  }
  bad_input("plan \"{}\" is not runnable: {}", plan.name, problems.front());
}

}  // namespace weft
