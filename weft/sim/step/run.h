// Steps on a network: how long one takes, what of its communication computing does not hide, operator by operator, and
// what every link carries.
//
//   exposed  time in which a rank computes nothing, counted for what it waited for: the last thing that the next node
//            to compute needed, or, after its last, the last thing it waited for. So the bubble of a pipeline is
//            exposed time of its receives
//   comm     what the operator's plan takes alone, without computing; of a send, from its start to its arrival
//   hidden   comm less exposed
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/sim/net/run.h"
#include "weft/sim/step/graph.h"
#include "weft/sim/step/machine.h"

namespace weft::netsim {

struct StepRunOptions {
  Ranks ranks = Ranks::folded;
  bool keep_slices = false;
  bool time_alone = true;  // run each plan alone, for `comm`
};

// Means over ranks.
struct OperatorUse {
  std::string name;
  double count = 0, compute_s = 0, comm_s = 0, exposed_s = 0, hidden_s = 0;
};

struct StepResult {
  NetResult net;
  std::vector<OperatorUse> operators;  // those exposed longest first
  std::vector<NodeSlice> slices;
};

// Throws bad_input where ranks do not fit the network or the step gets stuck: the message says who waits for whom.
// Traces are to be checked before (check_graph).
StepResult simulate_step(const StepGraph& graph, const Topology& topology, const StepRunOptions& options = {});

// In the format of real runs: the first ranks' nodes and the hottest links. The result must have kept its slices.
struct StepTraceOptions {
  int ranks = 16, links = 64;
};
std::string step_trace(const StepResult& result, const StepGraph& graph, const Topology& topology,
                       const StepTraceOptions& options = {});

}  // namespace weft::netsim
