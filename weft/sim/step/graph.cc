#include "weft/sim/step/graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/sim/net/digits.h"

namespace weft::netsim {
namespace {

constexpr Names<NodeKind, 4> kNodeKinds{{{NodeKind::compute, "compute"},
                                         {NodeKind::collective, "collective"},
                                         {NodeKind::send, "send"},
                                         {NodeKind::receive, "receive"}}};

std::string node_words(const StepGraph& graph, int rank, const StepNode& node) {
  return fmt::format("{}: {} \"{}\" of rank {}", graph.name, to_string(node.kind), graph.name_of(node), rank);
}

void check_node(const StepGraph& graph, int rank, const StepNode& node, const StepProgram& program) {
  for (std::int32_t n = node.needs.begin; n < node.needs.end; ++n)
    if (program.needs[at(n)] < 0 || program.needs[at(n)] >= int_size(program.nodes))
      bad_input("{} needs a node that is not there; give one of its {} nodes", node_words(graph, rank, node),
                program.nodes.size());
  if (node.kind == NodeKind::compute) {
    if (node.takes < 0) bad_input("{} takes {} ps; give 0 or more", node_words(graph, rank, node), node.takes);
    return;
  }
  const Communicator& where = graph.communicators[at(node.communicator)];
  const std::int32_t group = where.group_of[at(rank)];
  if (group < 0)
    bad_input("{} is of group \"{}\", which rank {} is not in; add it, or leave the node out",
              node_words(graph, rank, node), where.name, rank);
  const auto& members = where.groups[at(group)];
  if (node.kind != NodeKind::collective) {
    if (node.peer < 0 || node.peer >= int_size(members) || node.peer == where.place_of[at(rank)])
      bad_input("{} names place {} of a group of {}; give that of another rank", node_words(graph, rank, node),
                node.peer, members.size());
    if (node.bytes < 1) bad_input("{} is of {} bytes; give at least 1", node_words(graph, rank, node), node.bytes);
    return;
  }
  if (members.size() < 2)
    bad_input("{} is over a group of one rank; leave it out, or name the others", node_words(graph, rank, node));
  if (graph.shapes[at(node.shape)].plan.num_ranks != int_size(members))
    bad_input("{} has a plan for {} ranks and a group of {}; give one of its size", node_words(graph, rank, node),
              graph.shapes[at(node.shape)].plan.num_ranks, members.size());
}

// Nodes that can be done in some order; what is left needs itself.
void check_cycles(const StepGraph& graph, int rank, const StepProgram& program) {
  std::vector<std::int32_t> missing(program.nodes.size()), order;
  std::vector<std::vector<std::int32_t>> after(program.nodes.size());
  for (std::int32_t i = 0; i < int_size(program.nodes); ++i) {
    const Part needs = program.nodes[at(i)].needs;
    missing[at(i)] = needs.size();
    for (std::int32_t n = needs.begin; n < needs.end; ++n) after[at(program.needs[at(n)])].push_back(i);
    if (missing[at(i)] == 0) order.push_back(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const std::int32_t next : after[at(order[i])])
      if (--missing[at(next)] == 0) order.push_back(next);
  if (order.size() == program.nodes.size()) return;
  const auto left = std::find_if(missing.begin(), missing.end(), [](std::int32_t m) { return m > 0; });
  const StepNode& node = program.nodes[num(left - missing.begin())];
  bad_input("{} waits for itself, through what it needs; break the cycle", node_words(graph, rank, node));
}

// What ranks of one group say of one tag.
struct Entry {
  int rank = 0, count = 0;
  const StepNode* node = nullptr;
};

void check_collectives(const StepGraph& graph) {
  std::map<std::tuple<int, int, int>, Entry> seen;  // communicator, group, tag
  for (int rank = 0; rank < graph.num_ranks; ++rank)
    for (const StepNode& node : graph.program(rank).nodes) {
      if (node.kind != NodeKind::collective) continue;
      const std::int32_t group = graph.communicators[at(node.communicator)].group_of[at(rank)];
      Entry& first = seen[{node.communicator, group, node.tag}];
      if (first.node == nullptr) first = {rank, 0, &node};
      ++first.count;
      if (first.node->shape != node.shape)
        bad_input("{} is \"{}\", but for rank {} it is \"{}\"; make them equal in kind and size",
                  node_words(graph, rank, node), graph.shapes[at(node.shape)].name, first.rank,
                  graph.shapes[at(first.node->shape)].name);
    }
  for (const auto& [key, entry] : seen) {
    const auto& members = graph.communicators[at(std::get<0>(key))].groups[at(std::get<1>(key))];
    if (entry.count != int_size(members))
      bad_input("{} is entered {} times by a group of {} ranks; let each of them enter it once",
                node_words(graph, entry.rank, *entry.node), entry.count, members.size());
  }
}

void check_sends(const StepGraph& graph) {
  std::map<std::tuple<int, int, int>, Entry> sent;  // from, to, tag
  const auto peer_of = [&](int rank, const StepNode& node) {
    const Communicator& where = graph.communicators[at(node.communicator)];
    return where.groups[at(where.group_of[at(rank)])][at(node.peer)];
  };
  const auto each = [&](NodeKind kind, auto&& visit) {
    for (int rank = 0; rank < graph.num_ranks; ++rank)
      for (const StepNode& node : graph.program(rank).nodes)
        if (node.kind == kind) visit(rank, node);
  };
  each(NodeKind::send, [&](int rank, const StepNode& node) {
    Entry& entry = sent[{rank, peer_of(rank, node), node.tag}];
    if (entry.node != nullptr)
      bad_input("{} is the second one of tag {} to rank {}; number them", node_words(graph, rank, node), node.tag,
                peer_of(rank, node));
    entry = {rank, 1, &node};
  });
  each(NodeKind::receive, [&](int rank, const StepNode& node) {
    const int from = peer_of(rank, node);
    const auto found = sent.find({from, rank, node.tag});
    if (found == sent.end())
      bad_input("{} waits for rank {}, which sends nothing of tag {}; add the send, or leave it out",
                node_words(graph, rank, node), from, node.tag);
    if (found->second.node->bytes != node.bytes)
      bad_input("{} is of {} bytes, but rank {} sends {}; make them equal", node_words(graph, rank, node), node.bytes,
                from, found->second.node->bytes);
    sent.erase(found);
  });
  if (sent.empty()) return;
  const Entry& left = sent.begin()->second;
  bad_input("{} is received by nobody: rank {} has no receive of tag {}; add it, or leave the send out",
            node_words(graph, left.rank, *left.node), std::get<1>(sent.begin()->first), left.node->tag);
}

// What takes no time at all is no step.
void check_work(const StepGraph& graph) {
  for (const StepProgram& program : graph.programs)
    for (const StepNode& node : program.nodes)
      if (node.kind != NodeKind::compute || node.takes > 0) return;
  bad_input("{}: nothing computes and nothing moves; give nodes that take time", graph.name);
}

}  // namespace

std::string_view to_string(NodeKind kind) { return weft::name_of(kNodeKinds, kind); }

void check_graph(const StepGraph& graph) {
  if (graph.num_ranks < 1 || int_size(graph.program_of) != graph.num_ranks)
    bad_input("{}: {} ranks with {} programs; give one to each", graph.name, graph.num_ranks, graph.program_of.size());
  std::vector<bool> seen(graph.programs.size(), false);
  for (int rank = 0; rank < graph.num_ranks; ++rank) {
    const StepProgram& program = graph.program(rank);
    for (const StepNode& node : program.nodes) check_node(graph, rank, node, program);
    if (!seen[at(graph.program_of[at(rank)])]) check_cycles(graph, rank, program);
    seen[at(graph.program_of[at(rank)])] = true;
  }
  check_collectives(graph);
  check_sends(graph);
  check_work(graph);
}

Communicator communicator_of(std::string name, int num_ranks, std::vector<std::vector<std::int32_t>> groups) {
  Communicator out;
  out.name = std::move(name);
  out.groups = std::move(groups);
  out.group_of.assign(num(num_ranks), -1);
  out.place_of.assign(num(num_ranks), -1);
  for (int g = 0; g < int_size(out.groups); ++g)
    for (int place = 0; place < int_size(out.groups[at(g)]); ++place) {
      const std::int32_t rank = out.groups[at(g)][at(place)];
      if (rank < 0 || rank >= num_ranks)
        bad_input("group \"{}\" names rank {}, but there are {}; number them from 0", out.name, rank, num_ranks);
      if (out.group_of[at(rank)] >= 0) bad_input("group \"{}\" names rank {} twice; name it once", out.name, rank);
      out.group_of[at(rank)] = g, out.place_of[at(rank)] = place;
    }
  return out;
}

Communicator communicator_along(std::string name, const std::vector<int>& axes, const std::vector<int>& along) {
  const Digits digits(axes);
  std::map<int, std::vector<std::int32_t>> groups;  // by the first rank of each
  for (int rank = 0; rank < digits.count(); ++rank) {
    int first = rank;
    for (const int axis : along) first -= digits.digit(rank, axis) * digits.stride(axis);
    groups[first].push_back(rank);
  }
  std::vector<std::vector<std::int32_t>> listed;
  for (auto& [first, ranks] : groups) listed.push_back(std::move(ranks));
  return communicator_of(std::move(name), digits.count(), std::move(listed));
}

}  // namespace weft::netsim
