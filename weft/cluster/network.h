// The network between hosts as data, finer than a Cluster: several NICs a host, each rank near one of them, rates that
// differ, and racks whose uplink is narrower than their hosts together. What planners of resharding and the network
// simulator read; the files are in clusters/networks/, and "one NIC a host" is a preset.
//
//   A NIC sends and receives at its rate at the same time. What one rank sends to a rank of another host leaves by the
//   sender's NIC and enters by the receiver's. Between racks it also crosses both racks' uplinks. Ranks of one host
//   reach each other at `local`, which no NIC notices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/base/index.h"
#include "weft/cluster/cluster.h"

namespace weft {

struct Nic {
  int host = 0;
  double bytes_per_s = 0;  // each direction
  friend bool operator==(const Nic&, const Nic&) = default;
};

struct Network {
  std::string name;
  std::vector<Nic> nics;       // a host's NICs need not be neighbours here
  std::vector<int> nic_of;     // per rank; the rank's host is the NIC's
  std::vector<int> rack_of;    // per host
  std::vector<double> uplink;  // per rack, bytes a second each direction; 0: never in the way
  Link local;                  // between ranks of a host
  double latency_s = 0;        // between hosts

  int num_ranks() const { return int_size(nic_of); }
  int num_hosts() const { return int_size(rack_of); }
  const Nic& nic(int rank) const { return nics[at(nic_of[at(rank)])]; }
  int host_of(int rank) const { return nic(rank).host; }

  friend bool operator==(const Network&, const Network&) = default;
};

// `hosts` hosts of `devices` ranks in rank order, one NIC each, one rack.
Network one_nic_a_host(int hosts, int devices, const Link& link, const Link& local);
// The same for any number of ranks a host: host_of[rank], hosts numbered from 0.
Network one_nic_a_host(const std::vector<int>& host_of, const Link& link, const Link& local);

// All throw bad_input naming file, field, value and remedy. A file names every NIC, rank and rack, as to_json does, or,
// where hosts are alike, "num_hosts", "ranks_per_host", "nics_per_host", "nic_bytes_per_s" and, if it has racks,
// "hosts_per_rack" and "uplink_bytes_per_s".
Network parse_network(std::string_view json, std::string_view where);
Network load_network(const std::string& path);
std::string to_json(const Network& network);  // parse_network reads back the same value
void check_network(const Network& network, std::string_view where);

}  // namespace weft
