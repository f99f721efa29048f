// Plans on a network: how long they take, what every link carries, and what happened when.
//
//   steps     a rank makes its steps one after another, in listed order; each takes the time that options say
//   triggers  move at once: a copy engine or a thread of their own, which costs the steps nothing
//   messages  what a burst stores on another rank is one message (wires.h); its signals are raised when all of it is
//             there. Ranks receive at no cost beside their links
//   runs      one, from a standing start; what waits for an earlier run waits no longer
//
// Where the plan's programs are one up to a renumbering that the network shares (symmetry.h), one rank of each class is
// simulated for all. Every run checks itself: no link carried more than its rate allows, nothing came sooner than the
// longest chain that leads to it, and all that the plan says was done.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/plan/plan.h"
#include "weft/sim/net/script.h"
#include "weft/sim/net/wires.h"

namespace weft::netsim {

enum class Ranks { folded, every };  // folded: one of each class, where classes are proved

struct NetOptions {
  ScriptOptions script;
  Ranks ranks = Ranks::folded;
  bool keep_slices = false;  // what every rank and link did when
};

// Rank r of the plan is rank ranks[r] of the network; empty: rank r.
struct Job {
  const Plan* plan = nullptr;
  std::vector<int> ranks;
  double begin_s = 0;
};

struct StepSlice {
  std::int32_t job = 0, rank = 0, action = 0;
  Time begin = 0, end = 0;
};

struct NetResult {
  Time end = 0;            // the last action and the last byte; signals without data may be under way
  std::vector<Time> ends;  // of every job
  Time compute = 0;        // steps of the busiest rank
  Time chain = 0;          // the longest chain of steps and messages, were no link ever taken
  Time bound = 0;          // the hottest link's bytes at its rate
  int hottest = -1;        // that link
  std::int64_t bytes = 0, messages = 0, signals = 0, lanes = 0;  // between ranks; of all ranks
  std::int64_t hops = 0, events = 0;                             // simulated
  int ranks = 0, simulated = 0;
  std::int64_t burst = 0;
  std::vector<WireUse> wires;           // of every link; where ranks are folded, of the one that stands for its class
  std::vector<std::int32_t> canonical;  // that one; empty: each for itself
  std::vector<StepSlice> steps;
  std::vector<Crossing> crossings;

  double seconds() const { return sim::to_seconds(end); }
  // Communication that computing does not hide.
  double exposed_seconds() const { return sim::to_seconds(end > compute ? end - compute : 0); }
};

// Throws bad_input where ranks do not fit the network, or where a plan gets stuck: the message says who waits for whom.
NetResult simulate(const Plan& plan, const Topology& topology, const NetOptions& options = {});
NetResult simulate(const std::vector<Job>& jobs, const Topology& topology, const NetOptions& options = {});

// Fills in the hottest link and what it needs for its bytes. Throws where the run was faster than that, or than its
// longest chain: a fault of the simulator.
void check_bounds(const Wires& wires, const Topology& topology, NetResult* result);

}  // namespace weft::netsim
