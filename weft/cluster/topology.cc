// Builds the links of each kind of network. The order of wires is part of the rule that finds the next one
// (topology_route.cc): ranks' own wires first, in both directions, then those between switches.
#include "weft/cluster/topology.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/cluster/link_json.h"

namespace weft {
namespace {

constexpr Names<TopologyKind, 8> kTopologyKinds{{{TopologyKind::ring, "ring"},
                                                 {TopologyKind::torus, "torus"},
                                                 {TopologyKind::one_switch, "switch"},
                                                 {TopologyKind::full, "full"},
                                                 {TopologyKind::clos, "clos"},
                                                 {TopologyKind::rails, "rails"},
                                                 {TopologyKind::nics, "nics"},
                                                 {TopologyKind::graph, "graph"}}};
constexpr int kMaxNodes = 1 << 16;
constexpr std::int64_t kMaxWires = 1 << 24;

void check_link(const Link& link, std::string_view what) {
  if (!(link.bytes_per_s >= kMinRate && link.bytes_per_s <= kMaxRate))
    bad_input("{} moves {} bytes a second; give a rate from {} to {}", what, link.bytes_per_s, kMinRate, kMaxRate);
  if (!(link.latency_s >= 0 && link.latency_s <= kMaxSeconds))
    bad_input("{} has a latency of {} s; give one from 0 to {}", what, link.latency_s, kMaxSeconds);
}

Topology begun(TopologyKind kind, std::int64_t ranks) {
  if (ranks < 1 || ranks > kMaxNodes) bad_input("a {} of {} ranks; use 1 to {}", to_string(kind), ranks, kMaxNodes);
  Topology out;
  out.name = to_string(kind);
  out.kind = kind;
  out.num_ranks = static_cast<int>(ranks);
  return out;
}

void add_wire(Topology* t, int from, int to, const Link& link) {
  t->wires.push_back({from, to, link.bytes_per_s, link.latency_s});
}

int add_switches(Topology* t, std::string_view name, int count) {
  const int first = t->num_nodes();
  for (int i = 0; i < count; ++i)
    t->switches.push_back(count == 1 && name == "switch" ? "switch" : fmt::format("{} {}", name, i));
  return first;
}

// A link up from every rank to `node_of(rank)`, then one down to every rank.
template <typename NodeOf>
void add_up_and_down(Topology* t, const Link& up, const Link& down, NodeOf&& node_of) {
  for (int rank = 0; rank < t->num_ranks; ++rank) add_wire(t, rank, node_of(rank), up);
  for (int rank = 0; rank < t->num_ranks; ++rank) add_wire(t, node_of(rank), rank, down);
}

// For each receiver a breadth-first search backwards; of equal ways the wire listed first.
void find_ways(Topology* t) {
  const int nodes = t->num_nodes();
  std::vector<std::vector<std::int32_t>> into(at(nodes));
  for (int w = 0; w < int_size(t->wires); ++w) into[at(t->wires[at(w)].to)].push_back(w);
  t->next_wire.assign(num(nodes) * num(t->num_ranks), -1);
  std::vector<std::int32_t> distance(num(nodes)), queue;
  for (int rank = 0; rank < t->num_ranks; ++rank) {
    std::fill(distance.begin(), distance.end(), -1);
    queue.assign(1, rank);
    distance[at(rank)] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (const std::int32_t w : into[at(queue[i])])
        if (std::int32_t& seen = distance[at(t->wires[at(w)].from)]; seen < 0) {
          seen = distance[at(queue[i])] + 1;
          queue.push_back(t->wires[at(w)].from);
        }
    for (int w = int_size(t->wires) - 1; w >= 0; --w) {
      const DirectedLink& wire = t->wires[at(w)];
      if (distance[at(wire.to)] >= 0 && distance[at(wire.from)] == distance[at(wire.to)] + 1)
        t->next_wire[at(wire.from) * num(t->num_ranks) + at(rank)] = w;
    }
    for (int other = 0; other < t->num_ranks; ++other)
      if (distance[at(other)] < 0)
        bad_input("no way leads from {} to {}; link them, or the switches between them", t->node_name(other),
                  t->node_name(rank));
  }
}

}  // namespace

std::string_view to_string(TopologyKind kind) { return name_of(kTopologyKinds, kind); }

Topology ring_topology(int ranks, const Link& link) {
  Topology out = torus_topology({ranks}, {link});
  out.name = "ring";
  out.kind = TopologyKind::ring;
  return out;
}

Topology torus_topology(const std::vector<int>& dims, const std::vector<Link>& links) {
  if (dims.empty() || dims.size() > 6) bad_input("a torus of {} dimensions; use 1 to 6", dims.size());
  if (links.size() != dims.size())
    bad_input("a torus of {} dimensions with {} links; give one for each", dims.size(), links.size());
  std::int64_t ranks = 1;
  for (const int size : dims) {
    if (size < 1 || size > kMaxNodes) bad_input("a torus with a dimension of {}; use 1 to {}", size, kMaxNodes);
    ranks = std::min<std::int64_t>(ranks * size, kMaxNodes + 1);
  }
  Topology out = begun(TopologyKind::torus, ranks);
  out.dims = dims;
  for (const Link& link : links) check_link(link, "a link of the torus");
  for (int rank = 0; rank < out.num_ranks; ++rank) {
    int stride = out.num_ranks;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      stride /= dims[d];
      const int x = rank / stride % dims[d], base = rank - x * stride;
      out.places.push_back(static_cast<std::uint16_t>(x));
      add_wire(&out, rank, base + (x + 1) % dims[d] * stride, links[d]);
      add_wire(&out, rank, base + (x + dims[d] - 1) % dims[d] * stride, links[d]);
    }
  }
  return out;
}

Topology switch_topology(int ranks, const Link& link) {
  Topology out = begun(TopologyKind::one_switch, ranks);
  check_link(link, "a link of the switch");
  const int node = add_switches(&out, "switch", 1);
  add_up_and_down(&out, link, link, [&](int) { return node; });
  return out;
}

Topology full_topology(int ranks, const Link& link) {
  Topology out = begun(TopologyKind::full, ranks);
  check_link(link, "a link of the network");
  if (std::int64_t{ranks} * ranks > kMaxWires)
    bad_input("{} ranks, each linked with each other; use at most 4096, or a switch", ranks);
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) add_wire(&out, from, to, link);  // that to itself is never used
  return out;
}

Topology clos_topology(const ClosOptions& o) {
  Topology out = begun(TopologyKind::clos, o.ranks);
  check_link(o.link, "a link of a rank");
  check_link(o.uplink, "an uplink");
  if (o.ranks_per_leaf < 1 || o.ranks % o.ranks_per_leaf != 0)
    bad_input("{} ranks on leaves of {}; give leaves that they fill", o.ranks, o.ranks_per_leaf);
  const int leaves = o.ranks / o.ranks_per_leaf;
  if (o.num_spines < 1 || std::int64_t{o.num_spines} * leaves > kMaxWires || o.num_spines > kMaxNodes)
    bad_input("{} spines above {} leaves; use at least 1, and at most {} links between them", o.num_spines, leaves,
              kMaxWires);
  out.group = o.ranks_per_leaf, out.num_spines = o.num_spines, out.spines = o.spines, out.seed = o.seed;
  const int leaf = add_switches(&out, "leaf", leaves), spine = add_switches(&out, "spine", o.num_spines);
  add_up_and_down(&out, o.link, o.link, [&](int rank) { return leaf + rank / o.ranks_per_leaf; });
  for (int l = 0; l < leaves; ++l)
    for (int s = 0; s < o.num_spines; ++s) add_wire(&out, leaf + l, spine + s, o.uplink);
  for (int l = 0; l < leaves; ++l)
    for (int s = 0; s < o.num_spines; ++s) add_wire(&out, spine + s, leaf + l, o.uplink);
  return out;
}

Topology rails_topology(int hosts, int ranks_per_host, const Link& local, const Link& link) {
  if (hosts < 1 || ranks_per_host < 1)
    bad_input("rails of {} hosts of {} ranks; use at least 1 of each", hosts, ranks_per_host);
  Topology out = begun(TopologyKind::rails, std::int64_t{hosts} * ranks_per_host);
  check_link(local, "a link inside a host");
  check_link(link, "a link of a rail");
  out.group = ranks_per_host;
  const int host = add_switches(&out, "host", hosts), rail = add_switches(&out, "rail", ranks_per_host);
  add_up_and_down(&out, local, local, [&](int rank) { return host + rank / ranks_per_host; });
  add_up_and_down(&out, link, link, [&](int rank) { return rail + rank % ranks_per_host; });
  return out;
}

Topology nics_topology(const Network& network) {
  check_network(network, network.name);
  Topology out = begun(TopologyKind::nics, network.num_ranks());
  out.name = network.name;
  out.network = network;
  const int nics = int_size(network.nics), racks = int_size(network.uplink);
  const int host = add_switches(&out, "host", network.num_hosts()), nic = add_switches(&out, "NIC", nics);
  const int rack = add_switches(&out, "rack", racks);
  // The latency of a whole way is paid on its first link.
  add_up_and_down(&out, network.local, {network.local.bytes_per_s, 0},
                  [&](int rank) { return host + network.host_of(rank); });
  for (int n = 0; n < nics; ++n)
    add_wire(&out, nic + n, rack + network.rack_of[at(network.nics[at(n)].host)],
             {network.nics[at(n)].bytes_per_s, network.latency_s});
  for (int n = 0; n < nics; ++n)
    add_wire(&out, rack + network.rack_of[at(network.nics[at(n)].host)], nic + n, {network.nics[at(n)].bytes_per_s, 0});
  const int core = add_switches(&out, "core", 1);
  for (int k = 0; k < racks; ++k) add_wire(&out, rack + k, core, {std::max(network.uplink[at(k)], kMinRate), 0});
  for (int k = 0; k < racks; ++k) add_wire(&out, core, rack + k, {std::max(network.uplink[at(k)], kMinRate), 0});
  out.is_even = false;
  return out;
}

Topology graph_topology(std::vector<std::string> ranks, std::vector<std::string> switches,
                        const std::vector<NamedWire>& wires) {
  Topology out = begun(TopologyKind::graph, int_size(ranks));
  if (ranks.size() + switches.size() > num(kMaxNodes))
    bad_input("a graph of {} nodes; use at most {}", ranks.size() + switches.size(), kMaxNodes);
  std::unordered_map<std::string, int> node_of;
  for (const auto* list : {&ranks, &switches})
    for (const std::string& name : *list)
      if (!node_of.emplace(name, int_size(node_of)).second)
        bad_input("two nodes are called \"{}\"; name each once", name);
  out.rank_names = std::move(ranks);
  out.switches = std::move(switches);
  for (const NamedWire& wire : wires) {
    const auto node = [&](const std::string& name) {
      const auto found = node_of.find(name);
      if (found == node_of.end())
        bad_input("a link ends at \"{}\", which is neither a rank nor a switch; name it in one of the two lists", name);
      return found->second;
    };
    check_link(wire.link, fmt::format("the link from \"{}\" to \"{}\"", wire.from, wire.to));
    if (wire.from == wire.to) bad_input("a link leads from \"{}\" to itself; leave it out", wire.from);
    add_wire(&out, node(wire.from), node(wire.to), wire.link);
  }
  out.is_even = false;
  find_ways(&out);
  return out;
}

void slow_wire(Topology* t, std::string_view from, std::string_view to, double factor, std::string_view where) {
  if (!(factor >= 1e-6 && factor <= 1e6))
    bad_input("{}: the link from \"{}\" to \"{}\" is {} times slower; use a factor from 1e-6 to 1e6", where, from, to,
              factor);
  bool found = false;
  for (DirectedLink& wire : t->wires)
    if (t->node_name(wire.from) == from && t->node_name(wire.to) == to) wire.bytes_per_s /= factor, found = true;
  if (!found)
    bad_input("{}: no link leads from \"{}\" to \"{}\"; names are as in \"{}\"", where, from, to,
              t->wires.empty() ? "" : t->wire_name(0));
  t->is_even = false;
}

void slow_rank(Topology* t, int rank, double factor, std::string_view where) {
  if (rank < 0 || rank >= t->num_ranks)
    bad_input("{}: rank {} is slower, but there are {}; number them from 0", where, rank, t->num_ranks);
  if (!(factor >= 1e-6 && factor <= 1e6))
    bad_input("{}: rank {} is {} times slower; use a factor from 1e-6 to 1e6", where, rank, factor);
  t->slower.resize(num(t->num_ranks), 1);
  t->slower[at(rank)] = factor;
  t->is_even = false;
}

}  // namespace weft
