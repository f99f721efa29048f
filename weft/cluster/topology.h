// A network down to its links, for the network simulator: which directed links there are, what each carries, and which
// of them a message takes. Ranks are nodes 0 to N - 1; switches follow. Everything is data: what differs between two
// networks is in their files (clusters/topologies/), and a file of weft/cluster/network.h is read too.
//
//   ring       each rank linked with both neighbours; a message goes the shorter way, where both are as short upwards
//   torus      the same in every dimension, one dimension after another, the last (neighbouring numbers) first
//   switch     one switch between all: a link up and a link down per rank
//   full       a link from each rank to each other
//   clos       ranks on leaves, every leaf linked with every spine. Spines are `balanced` by the receiver's number, so
//              that shifted exchanges meet on none, or `hashed` by sender and receiver, as ECMP does with flows
//   rails      hosts whose ranks share a switch (NVLink), and one switch ("rail") for the ranks of one place on all
//              hosts. To another place of another host a message crosses its own host first, then the rail
//   nics       hosts with NICs that ranks share, and racks with uplinks: what a Network says
//   graph      named nodes and links; a message takes the fewest links, of equal ways the one listed first
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/network.h"

namespace weft {

enum class TopologyKind { ring, torus, one_switch, full, clos, rails, nics, graph };
enum class Spines { balanced, hashed };

std::string_view to_string(TopologyKind kind);

inline constexpr std::int64_t kWholeMessage = INT64_MAX;  // as packet: a message is stored before it is sent on

// A directed link.
struct DirectedLink {
  std::int32_t from = 0, to = 0;  // nodes
  double bytes_per_s = 0, latency_s = 0;
  friend bool operator==(const DirectedLink&, const DirectedLink&) = default;
};

struct Topology {
  std::string name;
  TopologyKind kind = TopologyKind::one_switch;
  int num_ranks = 0;
  std::vector<int> dims;              // ring, torus
  std::vector<std::uint16_t> places;  // of every rank in every dimension: [rank * dims + d]
  int group = 0;                      // clos: ranks of a leaf; rails: of a host
  int num_spines = 0;                 // clos
  Spines spines = Spines::balanced;
  std::uint64_t seed = 0;  // of the hash
  // A switch sends a message on when it has this much of it, or all. 0: when the first byte is there.
  std::int64_t packet_bytes = 4096;
  std::vector<DirectedLink> wires;
  std::vector<std::string> switches;    // names of the nodes behind the ranks
  std::vector<std::string> rank_names;  // graph; else empty: "rank 3"
  std::vector<double> slower;           // factor on the time of a rank's steps; empty: 1 everywhere
  bool is_even = true;                  // no wire and no rank is an exception to the kind's rule
  Network network;                      // nics
  std::vector<std::int32_t> next_wire;  // graph: [node * num_ranks + receiver], -1 where there is no way

  int num_nodes() const { return num_ranks + int_size(switches); }
  std::string node_name(int node) const;
  std::string wire_name(int wire) const;  // "rank 3 -> leaf 0"

  // The wire that a message takes as its `hop`-th, from `node`; -1 where it has arrived.
  int next(int from, int to, int hop, int node) const;
  std::vector<int> route(int from, int to) const;
};

// All throw bad_input naming what does not fit. Links go both ways.
Topology ring_topology(int ranks, const Link& link);
Topology torus_topology(const std::vector<int>& dims, const std::vector<Link>& links);  // a link per dimension
Topology switch_topology(int ranks, const Link& link);
Topology full_topology(int ranks, const Link& link);
struct ClosOptions {
  int ranks = 0, ranks_per_leaf = 0, num_spines = 0;
  Link link, uplink;  // of a rank; between a leaf and a spine
  Spines spines = Spines::balanced;
  std::uint64_t seed = 0;
};
Topology clos_topology(const ClosOptions& options);
Topology rails_topology(int hosts, int ranks_per_host, const Link& local, const Link& link);
Topology nics_topology(const Network& network);
struct NamedWire {
  std::string from, to;
  Link link;
};
Topology graph_topology(std::vector<std::string> ranks, std::vector<std::string> switches,
                        const std::vector<NamedWire>& wires);

// The same kind of network with the same links for another number of ranks: more or fewer hosts, leaves or places. A
// torus grows where it is smallest. Exceptions are left behind. Throws bad_input where the kind has no such rule.
Topology resized(const Topology& topology, int ranks);

// Exceptions. A wire goes by the names of its ends; its rate is divided by the factor.
void slow_wire(Topology* topology, std::string_view from, std::string_view to, double factor, std::string_view where);
void slow_rank(Topology* topology, int rank, double factor, std::string_view where);

// A file has "kind" and what it needs (docs/scaleout.md); without "kind" it is a Network's.
Topology parse_topology(std::string_view json, std::string_view where);
Topology load_topology(const std::string& name_or_path);  // a name of clusters/topologies/ or clusters/networks/
std::vector<std::string> topology_names();

}  // namespace weft
