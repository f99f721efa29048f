// Which wire a message takes next. Pure arithmetic for every kind but a graph, whose ways are found once.
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/cluster/topology.h"

namespace weft {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Dimension by dimension, the last first; wires of a node are up and down in every dimension.
int next_on_torus(const Topology& t, int node, int to) {
  const int num_dims = int_size(t.dims);
  const std::uint16_t* here = t.places.data() + num(node) * num(num_dims);
  const std::uint16_t* there = t.places.data() + num(to) * num(num_dims);
  for (int d = num_dims - 1; d >= 0; --d) {
    if (here[d] == there[d]) continue;
    const int size = t.dims[at(d)], up = there[d] - here[d] + (there[d] < here[d] ? size : 0);
    return (node * num_dims + d) * 2 + (2 * up <= size ? 0 : 1);
  }
  return -1;
}

int spine_of(const Topology& t, int from, int to) {
  const auto spines = static_cast<std::uint64_t>(t.num_spines);
  if (t.spines == Spines::balanced) return to % t.num_spines;
  return static_cast<int>(mixed(t.seed ^ (static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to))) %
                          spines);
}

int next_on_clos(const Topology& t, int from, int to, int hop) {
  const int n = t.num_ranks, leaves = n / t.group, a = from / t.group, b = to / t.group;
  if (hop == 0) return from;
  if (a == b) return hop == 1 ? n + to : -1;
  const int spine = spine_of(t, from, to);
  if (hop == 1) return 2 * n + a * t.num_spines + spine;
  if (hop == 2) return 2 * n + (leaves + b) * t.num_spines + spine;
  return hop == 3 ? n + to : -1;
}

// Inside the host first, to the rank at the receiver's place.
int next_on_rails(const Topology& t, int from, int to, int hop) {
  const int n = t.num_ranks, g = t.group, gate = from / g * g + to % g;
  if (from / g == to / g) return hop == 0 ? from : hop == 1 ? n + to : -1;
  if (gate != from && hop < 2) return hop == 0 ? from : n + gate;
  const int on_rail = gate == from ? hop : hop - 2;
  return on_rail == 0 ? 2 * n + gate : on_rail == 1 ? 3 * n + to : -1;
}

int next_by_nics(const Topology& t, int from, int to, int hop) {
  const Network& net = t.network;
  const int n = t.num_ranks, nics = int_size(net.nics), racks = int_size(net.uplink);
  if (net.host_of(from) == net.host_of(to)) return hop == 0 ? from : hop == 1 ? n + to : -1;
  const int a = net.rack_of[at(net.host_of(from))], b = net.rack_of[at(net.host_of(to))];
  int way[4], length = 0;
  way[length++] = 2 * n + net.nic_of[at(from)];
  if (a != b && net.uplink[at(a)] > 0) way[length++] = 2 * n + 2 * nics + a;
  if (a != b && net.uplink[at(b)] > 0) way[length++] = 2 * n + 2 * nics + racks + b;
  way[length++] = 2 * n + nics + net.nic_of[at(to)];
  return hop < length ? way[hop] : -1;
}

}  // namespace

int Topology::next(int from, int to, int hop, int node) const {
  if (from == to) return -1;
  switch (kind) {
    case TopologyKind::ring:
    case TopologyKind::torus:
      return next_on_torus(*this, node, to);
    case TopologyKind::one_switch:
      return hop == 0 ? from : hop == 1 ? num_ranks + to : -1;
    case TopologyKind::full:
      return hop == 0 ? from * num_ranks + to : -1;
    case TopologyKind::clos:
      return next_on_clos(*this, from, to, hop);
    case TopologyKind::rails:
      return next_on_rails(*this, from, to, hop);
    case TopologyKind::nics:
      return next_by_nics(*this, from, to, hop);
    case TopologyKind::graph:
      return node == to ? -1 : next_wire[at(node) * num(num_ranks) + at(to)];
  }
  return -1;
}

std::vector<int> Topology::route(int from, int to) const {
  std::vector<int> out;
  int node = from;
  for (int hop = 0;; ++hop) {
    const int wire = next(from, to, hop, node);
    if (wire < 0) return out;
    out.push_back(wire);
    node = wires[at(wire)].to;
  }
}

std::string Topology::node_name(int node) const {
  if (node >= num_ranks) return switches[at(node - num_ranks)];
  return rank_names.empty() ? fmt::format("rank {}", node) : rank_names[at(node)];
}

std::string Topology::wire_name(int wire) const {
  return node_name(wires[at(wire)].from) + " -> " + node_name(wires[at(wire)].to);
}

}  // namespace weft
