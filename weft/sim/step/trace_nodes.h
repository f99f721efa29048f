// A trace as its files say it, before it is a graph: nodes of each rank with the names they give each other. Readers of
// formats write these (chakra.h, text_workload.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/sim/step/writer.h"

namespace weft::netsim {

struct TraceNode {
  std::uint64_t id = 0;
  std::string name;
  NodeKind kind = NodeKind::compute;
  double seconds = 0;                      // compute
  SpaceKind collective = SpaceKind::keep;  // collective
  std::int64_t bytes = 0;                  // as CollectiveShape has them; send, receive: of the message
  std::string group;                       // collective; empty: all ranks
  std::int64_t peer = -1, tag = 0;         // send, receive
  std::vector<std::uint64_t> needs;        // ids
  double fused_seconds = 0;                // collective: of the compute node that it has taken in
};

struct RankTrace {
  std::string where;  // the file
  std::vector<TraceNode> nodes;
};

using TraceGroups = std::map<std::string, std::vector<std::int32_t>>;

struct TraceOptions {
  double flops_per_s = 0, bytes_per_s = 0;  // for compute nodes that have no duration; 0: refused
  // Compute nodes whose names these match ("*": any text) become one plan with the collective that needs them.
  std::vector<std::string> fuse;
  PlanOptions plans;
};

// Throws bad_input naming file, node, rank and remedy. What came out has been checked.
StepGraph graph_of_trace(std::string name, std::vector<RankTrace> ranks, const TraceGroups& groups,
                         const TraceOptions& options);

bool matches(std::string_view pattern, std::string_view text);

}  // namespace weft::netsim
