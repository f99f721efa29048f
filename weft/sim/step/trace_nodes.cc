#include "weft/sim/step/trace_nodes.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "weft/base/error.h"

namespace weft::netsim {
namespace {

bool can_be_fused(SpaceKind kind) { return kind != SpaceKind::keep && kind != SpaceKind::broadcast; }

// A compute node and the one collective that needs it become the collective. Others that needed the compute node need
// the collective: it is done no sooner.
void fuse_rank(RankTrace* trace, const std::vector<std::string>& patterns, std::vector<bool>* used) {
  std::unordered_map<std::uint64_t, std::size_t> compute;  // by id: those that match
  for (std::size_t n = 0; n < trace->nodes.size(); ++n)
    for (std::size_t p = 0; p < patterns.size(); ++p)
      if (trace->nodes[n].kind == NodeKind::compute && matches(patterns[p], trace->nodes[n].name)) {
        compute[trace->nodes[n].id] = n;
        (*used)[p] = true;
      }
  std::unordered_map<std::uint64_t, std::uint64_t> taken;  // compute node: collective
  for (TraceNode& node : trace->nodes) {
    if (node.kind != NodeKind::collective || !can_be_fused(node.collective) || node.fused_seconds > 0) continue;
    for (const std::uint64_t need : std::vector<std::uint64_t>(node.needs)) {
      const auto found = compute.find(need);
      if (found == compute.end() || taken.count(need) > 0 || node.fused_seconds > 0) continue;
      const TraceNode& maker = trace->nodes[found->second];
      if (maker.seconds <= 0) continue;
      node.fused_seconds = maker.seconds;
      node.name = maker.name + " + " + node.name;
      std::erase(node.needs, need);
      node.needs.insert(node.needs.end(), maker.needs.begin(), maker.needs.end());
      taken[need] = node.id;
    }
  }
  std::erase_if(trace->nodes, [&](const TraceNode& node) { return taken.count(node.id) > 0; });
  for (TraceNode& node : trace->nodes)
    for (std::uint64_t& need : node.needs)
      if (const auto found = taken.find(need); found != taken.end()) need = found->second;
}

class TraceGraph {
 public:
  TraceGraph(std::string name, const std::vector<RankTrace>& ranks, const TraceGroups& groups,
             const TraceOptions& options)
      : ranks_(ranks), writer_(std::move(name), options.plans) {
    StepGraph& graph = writer_.graph();
    graph.num_ranks = int_size(ranks);
    std::vector<std::int32_t> all(ranks.size());
    for (std::size_t r = 0; r < all.size(); ++r) all[r] = static_cast<std::int32_t>(r);
    add_group("", all);
    for (const auto& [group, members] : groups) add_group(group, members);
  }

  StepGraph write() {
    for (int rank = 0; rank < int_size(ranks_); ++rank) {
      writer_.graph().programs.push_back(program(rank));
      writer_.graph().program_of.push_back(rank);
    }
    StepGraph out = writer_.take();
    check_graph(out);
    return out;
  }

 private:
  void add_group(const std::string& name, const std::vector<std::int32_t>& members) {
    StepGraph& graph = writer_.graph();
    communicator_[name] = int_size(graph.communicators);
    graph.communicators.push_back(communicator_of(name.empty() ? "all ranks" : name, graph.num_ranks, {members}));
  }

  StepProgram program(int rank) {
    const RankTrace& trace = ranks_[at(rank)];
    std::unordered_map<std::uint64_t, std::int32_t> index_of;
    for (const TraceNode& node : trace.nodes)
      if (!index_of.emplace(node.id, int_size(index_of)).second)
        bad_input("{}: node {} is there twice; number nodes from 0", trace.where, node.id);
    StepProgram out;
    std::unordered_map<std::int32_t, std::int32_t> entered;              // per communicator
    std::map<std::tuple<std::int64_t, std::int64_t, bool>, int> passed;  // peer, tag, whether sent
    for (const TraceNode& one : trace.nodes) {
      StepNode node = node_of(trace, rank, one);
      if (one.kind == NodeKind::collective) node.tag = entered[node.communicator]++;
      if (one.kind == NodeKind::send || one.kind == NodeKind::receive) {
        const bool sent = one.kind == NodeKind::send;
        const int turn = passed[{one.peer, one.tag, sent}]++;
        node.tag = tag_of(sent ? rank : one.peer, sent ? one.peer : rank, one.tag, turn);
      }
      node.needs.begin = int_size(out.needs);
      for (const std::uint64_t need : one.needs) {
        const auto found = index_of.find(need);
        if (found == index_of.end())
          bad_input("{}: node {} \"{}\" needs node {}, which is not there; add it, or leave it out", trace.where,
                    one.id, one.name, need);
        out.needs.push_back(found->second);
      }
      node.needs.end = int_size(out.needs);
      out.nodes.push_back(node);
    }
    return out;
  }

  StepNode node_of(const RankTrace& trace, int rank, const TraceNode& one) {
    StepNode node;
    node.kind = one.kind, node.name = writer_.name(one.name), node.bytes = one.bytes;
    if (one.kind == NodeKind::compute) {
      node.takes = sim::picoseconds(one.seconds);
      return node;
    }
    if (one.bytes < 1)
      bad_input("{}: node {} \"{}\" is of {} bytes; give at least 1", trace.where, one.id, one.name, one.bytes);
    if (one.kind != NodeKind::collective) {
      if (one.peer < 0 || one.peer >= int_size(ranks_) || one.peer == rank)
        bad_input("{}: node {} \"{}\" is for rank {}, but there are {}; name another rank", trace.where, one.id,
                  one.name, one.peer, ranks_.size());
      node.communicator = 0, node.peer = static_cast<std::int32_t>(one.peer);
      return node;
    }
    const auto found = communicator_.find(one.group);
    if (found == communicator_.end())
      bad_input("{}: node {} \"{}\" is of group \"{}\", which no file of groups names; give it with --groups",
                trace.where, one.id, one.name, one.group);
    node.communicator = found->second;
    const auto& members = writer_.graph().communicators[at(node.communicator)].groups[0];
    if (members.size() < 2)
      bad_input("{}: node {} \"{}\" is over a group of one rank; leave it out, or name the others", trace.where, one.id,
                one.name);
    if (std::find(members.begin(), members.end(), rank) == members.end())
      bad_input("{}: node {} \"{}\" is of group \"{}\", which rank {} is not in; add it, or leave the node out",
                trace.where, one.id, one.name, one.group, rank);
    node.shape = writer_.shape({one.collective, int_size(members), one.bytes, one.fused_seconds});
    return node;
  }

  std::int32_t tag_of(std::int64_t from, std::int64_t to, std::int64_t tag, int turn) {
    return tags_.try_emplace({from, to, tag, turn}, int_size(tags_)).first->second;
  }

  const std::vector<RankTrace>& ranks_;
  GraphWriter writer_;
  std::map<std::string, std::int32_t> communicator_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, int>, std::int32_t> tags_;
};

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (std::size_t skip = 0; skip <= text.size(); ++skip)
      if (matches(pattern.substr(1), text.substr(skip))) return true;
    return false;
  }
  return !text.empty() && pattern[0] == text[0] && matches(pattern.substr(1), text.substr(1));
}

StepGraph graph_of_trace(std::string name, std::vector<RankTrace> ranks, const TraceGroups& groups,
                         const TraceOptions& options) {
  if (ranks.empty()) bad_input("{}: no rank's trace is there; give one file per rank", name);
  for (const std::string& pattern : options.fuse)
    if (pattern.size() > 256 || std::count(pattern.begin(), pattern.end(), '*') > 4)
      bad_input("--fuse {} has more than 4 stars or 256 letters; give a shorter pattern", pattern);
  std::vector<bool> used(options.fuse.size(), false);
  for (RankTrace& trace : ranks) fuse_rank(&trace, options.fuse, &used);
  for (std::size_t p = 0; p < used.size(); ++p)
    if (!used[p]) bad_input("--fuse {} matches no compute node of {}; look at its names", options.fuse[p], name);
  return TraceGraph(std::move(name), ranks, groups, options).write();
}

}  // namespace weft::netsim
