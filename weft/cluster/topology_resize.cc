// Networks of one kind in several sizes.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/cluster/topology.h"

namespace weft {
namespace {

Link link_of(const DirectedLink& wire) { return {wire.bytes_per_s, wire.latency_s}; }

// Doubles the smallest or halves the largest dimension until the ranks fit.
std::vector<int> resized_dims(std::vector<int> dims, int ranks) {
  const auto count = [&] {
    std::int64_t product = 1;
    for (const int size : dims) product *= size;
    return product;
  };
  while (count() < ranks) *std::min_element(dims.begin(), dims.end()) *= 2;
  while (count() > ranks && *std::max_element(dims.begin(), dims.end()) > 1) {
    auto largest = std::max_element(dims.begin(), dims.end());
    *largest = *largest / 2;
  }
  if (count() != ranks)
    bad_input("a torus of {} ranks, doubled or halved, never has {}; use a power of two times its size", count(),
              ranks);
  return dims;
}

Topology sized(const Topology& t, int ranks) {
  const Link link = link_of(t.wires[0]);
  const std::size_t behind = 2 * num(t.num_ranks);  // the first wire that is not between a rank and its first switch
  switch (t.kind) {
    case TopologyKind::ring:
      return ring_topology(ranks, link);
    case TopologyKind::one_switch:
      return switch_topology(ranks, link);
    case TopologyKind::full:
      return full_topology(ranks, link);
    case TopologyKind::torus: {
      std::vector<Link> links;
      for (std::size_t d = 0; d < t.dims.size(); ++d) links.push_back(link_of(t.wires[2 * d]));
      return torus_topology(resized_dims(t.dims, ranks), links);
    }
    case TopologyKind::clos:
      return clos_topology({.ranks = ranks,
                            .ranks_per_leaf = std::min(t.group, ranks),
                            .num_spines = t.num_spines,
                            .link = link,
                            .uplink = link_of(t.wires[behind]),
                            .spines = t.spines,
                            .seed = t.seed});
    case TopologyKind::rails: {
      const int group = std::min(t.group, ranks);
      if (ranks % group != 0) bad_input("{} ranks in hosts of {}; use a multiple", ranks, group);
      return rails_topology(ranks / group, group, link, link_of(t.wires[behind]));
    }
    case TopologyKind::nics:
    case TopologyKind::graph:
      break;
  }
  bad_input(
      "network \"{}\" lists its nodes one by one and has no other size; use a ring, torus, switch, full, clos or "
      "rails",
      t.name);
}

}  // namespace

Topology resized(const Topology& topology, int ranks) {
  if (ranks == topology.num_ranks) return topology;
  Topology out = sized(topology, ranks);
  out.name = topology.name;
  out.packet_bytes = topology.packet_bytes;
  return out;
}

}  // namespace weft
