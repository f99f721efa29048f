// What people and programs want to know of a run: the hottest links, and a timeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/trace.h"
#include "weft/sim/net/run.h"

namespace weft::netsim {

struct HotLink {
  int wire = 0;
  int count = 1;  // links of its class, which all carried the same
  std::string name;
  std::int64_t bytes = 0, messages = 0;
  double busy_s = 0;
  double share = 0;  // of the run
};

// Those that were busy longest, the first of equal ones first; at most `most`. Links of one class are one row.
std::vector<HotLink> hottest_links(const NetResult& result, const Topology& topology, int most);

struct NetTraceOptions {
  int ranks = 16, links = 64;  // the first ranks, and the links that were busy longest
};
// In the format of real runs (weft/base/trace.h). The result must have kept its slices; `plans` are its jobs'.
std::string net_trace(const NetResult& result, const std::vector<const Plan*>& plans, const Topology& topology,
                      const NetTraceOptions& options = {});

// The links that were busy longest, as rows of a timeline.
void add_links(const NetResult& result, const Topology& topology, int most, TraceText* trace);

}  // namespace weft::netsim
