#include "weft/sim/net/report.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>

#include "weft/base/trace.h"
#include "weft/plan/program.h"

namespace weft::netsim {
namespace {

double microseconds(Time time) { return static_cast<double>(time) * 1e-6; }

void add_steps(const NetResult& result, const std::vector<const Plan*>& plans, int most_ranks, TraceText* trace) {
  std::vector<Program> programs;  // of rank 0: names of rules are those of all ranks
  for (const Plan* plan : plans) programs.push_back(Expander(*plan).program(0));
  int first_process = 0;
  for (int job = 0; job < int_size(plans); ++job) {
    const int ranks = std::min(plans[at(job)]->num_ranks, most_ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      trace->name_process(first_process + rank, fmt::format("rank {}: {}", rank, plans[at(job)]->name),
                          first_process + rank);
      trace->name_row({first_process + rank, 0}, "steps");
    }
    for (const StepSlice& slice : result.steps) {
      if (slice.job != job || slice.rank >= ranks) continue;
      const auto& actions = programs[at(job)].actions;
      const std::string name =
          at(slice.action) < actions.size() ? plans[at(job)]->rules[at(actions[at(slice.action)].rule)].name : "step";
      trace->slice({first_process + slice.rank, 0}, name, "compute", microseconds(slice.begin),
                   microseconds(slice.end - slice.begin));
    }
    first_process += ranks;
  }
}

}  // namespace

std::vector<HotLink> hottest_links(const NetResult& result, const Topology& topology, int most) {
  std::vector<int> count(topology.wires.size(), result.canonical.empty() ? 1 : 0);
  for (const std::int32_t wire : result.canonical) ++count[at(wire)];
  std::vector<HotLink> out;
  for (int w = 0; w < int_size(topology.wires); ++w) {
    const WireUse& use = result.wires[at(w)];
    if (use.messages == 0) continue;
    HotLink link;
    link.wire = w, link.count = count[at(w)];
    link.bytes = use.bytes, link.messages = use.messages;
    link.busy_s = static_cast<double>(use.bytes) / topology.wires[at(w)].bytes_per_s;
    link.share = result.end > 0 ? link.busy_s / result.seconds() : 0;
    out.push_back(link);
  }
  std::stable_sort(out.begin(), out.end(), [](const HotLink& a, const HotLink& b) { return a.busy_s > b.busy_s; });
  out.resize(std::min(out.size(), num(std::max(most, 0))));
  for (HotLink& link : out) link.name = topology.wire_name(link.wire);
  return out;
}

void add_links(const NetResult& result, const Topology& topology, int most, TraceText* trace) {
  trace->name_process(TraceText::kLinks, "links", TraceText::kLinks);
  std::unordered_map<int, int> row_of;
  for (const HotLink& link : hottest_links(result, topology, most)) {
    row_of[link.wire] = int_size(row_of);
    trace->name_row({TraceText::kLinks, row_of[link.wire]}, link.name);
  }
  for (const Crossing& crossing : result.crossings) {
    const auto row = row_of.find(crossing.wire);
    if (row == row_of.end()) continue;
    trace->slice({TraceText::kLinks, row->second}, fmt::format("send {}", crossing.send), "link",
                 microseconds(crossing.begin), microseconds(crossing.end - crossing.begin));
  }
}

std::string net_trace(const NetResult& result, const std::vector<const Plan*>& plans, const Topology& topology,
                      const NetTraceOptions& options) {
  TraceText trace;
  add_steps(result, plans, options.ranks, &trace);
  add_links(result, topology, options.links, &trace);
  return TraceText::file({trace.events()});
}

}  // namespace weft::netsim
