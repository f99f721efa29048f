// The network of virtual hosts: one namespace per host, a veth pair from each to a bridge in a namespace of its own,
// and a token bucket on both ends of every pair, so that what a host sends and what it receives are shaped alike. The
// bridge is not in the machine's own namespace: sets of hosts do not see each other, nor the machine, and its firewall
// sees neither.
#pragma once

#include <cstdint>
#include <string>

#include "weft/base/os/fd.h"
#include "weft/virtual/hosts.h"

namespace weft::virtual_hosts {

// This thread in another network namespace while it lives; sockets made then stay there. Throws io.
class InNamespace {
 public:
  explicit InNamespace(const std::string& name);
  ~InNamespace();
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  Fd before_;
};

// The first three numbers of an address, "10.77.3", of a /24 that neither this machine nor other virtual hosts have.
std::string free_subnet();

// Namespaces, bridge, links, addresses and shaping of the hosts. Throws io where a step fails, leaving the
// steps before it; gives up between steps, with `interrupted` in the message, once that says so.
void make_network(const VirtualHosts& all, bool (*interrupted)());

// Bytes through the host's device so far: `sent` and `received` are filled in, where root asks.
void read_counters(VirtualHost& host);

// From the first host to the second, as TCP sees them: payload a second over a stream, and half the round trip of a
// byte between two threads that sleep meanwhile. Takes about a third of a second.
struct SeenLink {
  double bytes_per_s = 0, latency_s = 0;
};
SeenLink measure_link(const VirtualHost& from, const VirtualHost& to);

}  // namespace weft::virtual_hosts
