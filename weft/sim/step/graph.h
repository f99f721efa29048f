// A training step as a graph: what every rank computes, which collectives it takes part in and what it sends, and which
// of these wait for which. Builders write graphs (training.h, dlrm.h), traces are read into them (chakra.h,
// text_workload.h), and run.h simulates them on a network.
//
//   compute     takes its rank's time; one at a time, of those that are ready the one listed first
//   collective  a plan over a group of ranks. A plan whose steps take time (fused) has the rank's computing for itself
//               from its first step to its last; others leave it alone
//   send        so many bytes to one rank of a group; done when they are there
//   receive     done when they have come
//
// Ranks that do the same share a program. Ranks are digits (axes), the slowest first. Where shifts along an axis map
// programs, groups and places onto each other, the builder says so (is_alike), and one rank of each class can be
// simulated where the network shares the shift (net/symmetry.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/sim/net/script.h"

namespace weft::netsim {

enum class NodeKind : std::uint8_t { compute, collective, send, receive };

std::string_view to_string(NodeKind kind);

struct StepNode {
  NodeKind kind = NodeKind::compute;
  std::int32_t name = 0;           // in StepGraph::names
  Time takes = 0;                  // compute
  std::int32_t shape = -1;         // collective
  std::int32_t communicator = -1;  // collective, send, receive
  std::int32_t peer = -1;          // send, receive: the other's place in the group
  std::int32_t tag = 0;            // what belongs together on the ranks of a group has one tag
  std::int64_t bytes = 0;          // send, receive; collective: for messages
  Part needs;                      // in StepProgram::needs
};

struct StepProgram {
  std::vector<StepNode> nodes;
  std::vector<std::int32_t> needs;  // nodes of this program
};

// Groups of ranks, no rank in two of them.
struct Communicator {
  std::string name;
  std::vector<std::vector<std::int32_t>> groups;
  std::vector<std::int32_t> group_of, place_of;  // per rank; -1: in no group
};

// A plan for groups of one size, compiled once.
struct StepShape {
  std::string name;
  Plan plan;
  double seconds = 0;      // that its steps take together on a rank; 0: a collective alone
  std::int64_t bytes = 0;  // as CollectiveShape has them (writer.h)
};

struct StepGraph {
  std::string name;
  int num_ranks = 0;
  std::vector<int> axes;
  std::vector<bool> is_alike;  // per axis
  std::vector<std::int32_t> program_of;
  std::vector<StepProgram> programs;
  std::vector<StepShape> shapes;
  std::vector<Communicator> communicators;
  std::vector<std::string> names;

  const StepProgram& program(int rank) const { return programs[at(program_of[at(rank)])]; }
  const std::string& name_of(const StepNode& node) const { return names[at(node.name)]; }
};

// Throws bad_input where the graph cannot run, naming graph, rank, node and remedy: a node that needs itself, a
// collective that part of its group never enters or enters with another shape, a send without a receive or of another
// size, a group of one rank or of an unknown rank, time that is negative.
void check_graph(const StepGraph& graph);

// The groups along some of the axes of a grid of ranks: a group has all ranks that differ in these digits alone.
Communicator communicator_along(std::string name, const std::vector<int>& axes, const std::vector<int>& along);
// Of listed groups.
Communicator communicator_of(std::string name, int num_ranks, std::vector<std::vector<std::int32_t>> groups);

}  // namespace weft::netsim
