// Chakra execution traces (.et): one file per rank, named PREFIX.RANK.et, of protocol-buffer messages behind their
// lengths, metadata first, then nodes; and a JSON file of communicator groups, {"0": [0, 1], "1": [2, 3]}, by the name
// that nodes give in "pg_name". Without one, collectives are of all ranks.
//
//   COMP       takes duration_micros, or, where that is 0, the longer of "num_ops" and "tensor_size" at a rank's rates
//   MEM_*      takes "tensor_size" at the memory's rate
//   COMM_*     "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag"; of an all_gather comm_size is one rank's
//   METADATA   takes no time
//
// What is written can be read again, to the picosecond ("takes_ps" beside duration_micros). A fused plan is written as
// its compute node and its collective: the format has no word for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/sim/step/trace_nodes.h"

namespace weft::netsim {

// All throw bad_input naming file, node, attribute and remedy.
RankTrace parse_chakra(std::string_view text, std::string_view where, int rank, const TraceOptions& options);
TraceGroups parse_chakra_groups(std::string_view json, std::string_view where);
// PREFIX.0.et, PREFIX.1.et, ... as many as there are; `groups_path` may be empty.
StepGraph load_chakra(const std::string& prefix, const std::string& groups_path, const TraceOptions& options);

std::string chakra_text(const StepGraph& graph, int rank);
std::string chakra_groups(const StepGraph& graph);

}  // namespace weft::netsim
