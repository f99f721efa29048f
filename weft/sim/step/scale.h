// A step in several settings: on more and more ranks, with every rate a little higher and lower, and over what is not
// known of an experiment. Each setting is run bulk, in panels and fused.
#pragma once

#include <string>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/sim/step/training.h"

namespace weft::netsim {

struct Setting {
  Workload workload;
  Training training;
  TrainingOptions options;
  Topology topology;
};

// Seconds of a step, by how producers and collectives go together. dlrm: `both` has its update in parts too.
struct Styles {
  double compute_s = 0;  // of the busiest rank, bulk
  double bulk_s = 0, panels_s = 0, forward_s = 0, both_s = 0;
  int ranks = 0, simulated = 0;
  std::int64_t events = 0;
};
Styles run_styles(const Setting& setting);

// On so many ranks: each works as much as before. Replicas become more; below one replica, stages fewer. A dlrm keeps
// its tables per rank. The network keeps its kind and links. Throws bad_input where ranks do not divide.
Setting at_ranks(const Setting& setting, int ranks);

struct Variation {
  std::string what;
  Setting setting;
};
// Every rate and latency less and more by `share`: a rank's arithmetic and memory, links by rate, fused producers.
std::vector<Variation> free_parameters(const Setting& setting, double share);
// What the page of facts does not know of the experiment on 128 nodes, each at its ends.
std::vector<Variation> unknowns_of_dlrm(const Setting& setting);

}  // namespace weft::netsim
