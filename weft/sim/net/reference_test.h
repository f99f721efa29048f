// The obvious simulator, for tests: every rank's program expanded, one tile at a time, real counters, events in a
// std::map, routes as lists. It knows no bursts, cells, queues, scripts or symmetry.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/program.h"
#include "weft/sim/net/script.h"
#include "weft/sim/time.h"

namespace weft::netsim {

class Reference {
 public:
  Reference(const Plan& plan, const Topology& topology, StepSeconds step_seconds = {})
      : plan_(plan), topology_(topology), seconds_(std::move(step_seconds)), expander_(plan) {
    taken_.assign(topology.wires.size(), 0);
    for (int r = 0; r < plan.num_ranks; ++r) {
      programs_.push_back(expander_.program(r));
      counters_.emplace_back(num(expander_.num_counters(r)), 0);
      lanes_.emplace_back();
      std::int64_t send = 0;
      for (std::size_t a = 0; a < programs_.back().actions.size(); ++a)
        for (std::int64_t lane = 0; lane < programs_.back().actions[a].lanes; ++lane) {
          lanes_.back().push_back({a, lane, send, false});
          send += static_cast<std::int64_t>(receivers(programs_.back(), programs_.back().actions[a]).size());
        }
    }
    busy_.assign(num(plan.num_ranks), false);
  }

  sim::Time run() {
    for (int r = 0; r < plan_.num_ranks; ++r) at_time(0, 0, 0xffffffff, r, {Kind::begin, r});
    while (!events_.empty()) {
      const auto [key, event] = *events_.begin();
      events_.erase(events_.begin());
      now_ = key[0], round_ = key[1];
      if (event.kind == Kind::hop) {
        hop(event);
      } else if (event.kind == Kind::arrival) {
        if (event.bytes > 0) end_ = std::max(end_, now_);
        raise(event.to, event.signals);
        progress(event.to);
      } else if (event.kind == Kind::made) {
        busy_[at(event.rank)] = false;
        finish(event.rank, event.lane);
        progress(event.rank);
      } else {
        progress(event.rank);
      }
    }
    return end_;
  }

  bool all_done() const {
    for (const auto& lanes : lanes_)
      for (const Lane& lane : lanes)
        if (!lane.done) return false;
    return true;
  }

 private:
  enum class Kind { begin, made, hop, arrival };
  struct Event {
    Kind kind = Kind::begin;
    int rank = 0;
    std::size_t lane = 0;
    int to = 0;
    std::int64_t bytes = 0, send = 0;
    std::size_t hop_number = 0;
    sim::Time head = 0, tail = 0;
    std::vector<std::int32_t> signals = {};
  };
  struct Lane {
    std::size_t action;
    std::int64_t lane, first_send;
    bool done;
  };
  using Key = std::array<std::int64_t, 5>;  // time, round, send, rank, sequence

  void at_time(sim::Time at, std::int64_t round, std::int64_t send, int rank, Event event) {
    events_.emplace(Key{at, at == now_ ? round : 0, send, rank, sequence_++}, std::move(event));
  }

  static std::vector<int> receivers(const Program& program, const Action& action) {
    std::vector<int> out;
    const auto add = [&](int rank) {
      if (std::find(out.begin(), out.end(), rank) == out.end()) out.push_back(rank);
    };
    for (const Piece& target : program.targets(action))
      if (target.rank != program.rank) add(target.rank);
    for (const Signal& signal : program.signals_of(action)) add(signal.rank);
    return out;
  }

  bool is_ready(int r, const Lane& lane) const {
    const Program& program = programs_[at(r)];
    for (const Wait& w : program.of(program.actions[lane.action]))
      if (w.lag == 0 && counters_[at(r)][at(w.counter + (w.per > 0 ? lane.lane / w.per : 0))] < w.at) return false;
    return true;
  }

  // Fires triggers that are ready until there are none, then the next step, and so on.
  void progress(int r) {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < lanes_[at(r)].size(); ++i) {
        Lane& lane = lanes_[at(r)][i];
        if (lane.done || programs_[at(r)].actions[lane.action].kind == ActionKind::step || !is_ready(r, lane)) continue;
        finish(r, i);
        again = true;
      }
      if (again || busy_[at(r)]) continue;
      for (std::size_t i = 0; i < lanes_[at(r)].size(); ++i) {
        Lane& lane = lanes_[at(r)][i];
        const Action& action = programs_[at(r)].actions[lane.action];
        if (lane.done || action.kind == ActionKind::trigger) continue;
        if (!is_ready(r, lane)) break;
        const double all = seconds_ ? seconds_(programs_[at(r)], action) : 0;
        const auto made = [&](std::int64_t n) {
          return sim::picoseconds(all * static_cast<double>(n) / static_cast<double>(action.lanes));
        };
        sim::Time time = made(lane.lane + 1) - made(lane.lane);
        if (!topology_.slower.empty() && topology_.slower[at(r)] != 1)
          time = static_cast<sim::Time>(static_cast<double>(time) * topology_.slower[at(r)]);
        if (time == 0) {
          finish(r, i);
          again = true;
        } else {
          busy_[at(r)] = true;
          at_time(now_ + time, 0, 0xffffffff, r, {Kind::made, r, i});
        }
        break;
      }
    }
  }

  void finish(int r, std::size_t index) {
    Lane& lane = lanes_[at(r)][index];
    lane.done = true;
    end_ = std::max(end_, now_);
    const Program& program = programs_[at(r)];
    const Action& action = program.actions[lane.action];
    std::int64_t send = lane.first_send;
    for (const int to : receivers(program, action)) {
      Event event{Kind::hop, r, 0, to, 0, send++, 0, now_, now_};
      for (const Piece& target : program.targets(action))
        if (target.rank == to && to != r)
          event.bytes +=
              travel_bytes(plan_, program, action, {to, target.buffer, lane_box(target.box, action.tile, lane.lane)});
      for (const Signal& signal : program.signals_of(action))
        if (signal.rank == to)
          event.signals.push_back(signal.counter + static_cast<std::int32_t>(signal.per ? lane.lane / signal.per : 0));
      if (to == r) {
        raise(r, event.signals);
      } else if (event.bytes == 0) {
        for (const int wire : topology_.route(r, to))
          event.tail += sim::picoseconds(topology_.wires[at(wire)].latency_s);
        event.kind = Kind::arrival;
        const auto tail = event.tail;
        at_time(tail, round_ + 1, event.send, r, std::move(event));
      } else {
        hop(event);
      }
    }
  }

  void hop(Event event) {
    const std::vector<int> route = topology_.route(event.rank, event.to);
    const DirectedLink& wire = topology_.wires[at(route[event.hop_number])];
    const auto serial = [&](std::int64_t bytes) {
      return static_cast<sim::Time>(std::ceil(1e12 / wire.bytes_per_s * static_cast<double>(bytes)));
    };
    const sim::Time latency = sim::picoseconds(wire.latency_s),
                    packet = serial(std::min(event.bytes, topology_.packet_bytes));
    sim::Time& taken = taken_[at(route[event.hop_number])];
    const sim::Time start = std::max(event.head, taken);
    taken = start + serial(event.bytes);
    event.tail = std::max(taken, event.tail + packet) + latency;
    event.head = start + packet + latency;
    event.kind = ++event.hop_number == route.size() ? Kind::arrival : Kind::hop;
    const sim::Time due = event.kind == Kind::arrival ? event.tail : event.head;
    const std::int64_t send = event.send;
    const int rank = event.rank;
    at_time(due, round_ + 1, send, rank, std::move(event));
  }

  void raise(int r, const std::vector<std::int32_t>& signals) {
    for (const std::int32_t counter : signals) ++counters_[at(r)][at(counter)];
  }

  const Plan& plan_;
  const Topology& topology_;
  StepSeconds seconds_;
  Expander expander_;
  std::vector<Program> programs_;
  std::vector<std::vector<std::uint32_t>> counters_;
  std::vector<std::vector<Lane>> lanes_;
  std::vector<bool> busy_;
  std::vector<sim::Time> taken_;
  std::map<Key, Event> events_;
  std::int64_t sequence_ = 0, round_ = 0;
  sim::Time now_ = 0, end_ = 0;
};

}  // namespace weft::netsim
