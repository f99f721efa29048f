// How long one run of a plan takes on a cluster: an event model over actions, not tiles.
//
//   compute   a rank takes its steps one after another, in listed order; triggers that move data go one after another
//             beside them, and the rank is busy for at least the sum of both. What an action costs: estimate_cost.h
//   lanes     an action is its first and its last lane. One that waits lane by lane starts after the first lane of what
//             it waits for, and ends no earlier than one lane after the last
//   host      a store to another rank is made by whoever makes the tile; on its own host it is there signal_s later
//   network   what goes to another host is on its way from then on, one action after another at the link's rate, and
//             there its latency later. Fabric `nic`: a host has one link out, of which each rank has the part that it
//             uses, and what a host receives bounds the whole from below. Fabric `pairs`: one link for every ordered
//             pair of hosts
//   run       starting a run and waiting for its output: run_s
//   waits     with a lag are met: the runs before are long over
//
// The order of everything that shares a lane or a link is that of one untimed run, so it does not depend on
// the cluster, and a faster chip or link never makes the estimate longer. Same input, same output.
#pragma once

#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/plan/plan.h"

namespace weft {

struct Estimate {
  double seconds = 0;
  double compute_seconds = 0;  // the busiest rank's tiles, kept where they are made
  double comm_seconds = 0;     // the busiest link alone, as if nothing were computed

  // Communication that computing does not hide. Where storing to a peer is cheaper than keeping, there is none.
  double exposed_seconds() const { return seconds > compute_seconds ? seconds - compute_seconds : 0; }
};

// What a plan does not know, for it comes with the inputs.
struct EstimateHint {
  struct Table {
    double pooled = 0;  // rows that a bag pools into one
    double rows = 0;    // of the table
  };
  double pooled_rows = 32;                 // of every table, where `tables` is empty
  std::vector<std::vector<Table>> tables;  // of each rank, in order of columns
  double zipf = 0;  // exponent of the popularity of rows: 1 / i^zipf for the i-th most popular; 0: all alike
  // Bytes of weights that a rank's runs take in turn. 0: more than any cache holds, as the layers of a model do.
  double weights_in_turn = 0;
};

// Rank r of the plan is rank r of the cluster, fitted to the plan's number of ranks. Throws bad_input where
// the plan cannot run. All ranks are looked at: cost is that of one pass over their actions.
Estimate estimate(const Plan& plan, const Cluster& cluster, const EstimateHint& hint = {});

// The cluster with room for that many ranks: where it has fewer, every host gets more of them.
Cluster fitted(Cluster cluster, int num_ranks);

}  // namespace weft
