// Modelled hardware as data: hosts, the ranks on them, the links between, and what one rank computes and
// moves in a second. Cost model, planner and simulator read the same numbers; the files are in clusters/,
// and `weft info --calibrate` measures them for the machine at hand.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "weft/base/fabric.h"

namespace weft {

struct Link {
  double bytes_per_s = 0;  // one direction
  double latency_s = 0;    // from the last byte sent to its being there, on an idle link
  // Where local ranks are paced to it (transport/pace.h): what shares its rate. A Cluster says so for its own network.
  Fabric fabric = Fabric::pairs;

  friend bool operator==(const Link&, const Link&) = default;
};

std::string_view to_string(Fabric fabric);

// Rates are those of one rank while a second one is as busy on another core: memory is shared.
struct Cluster {
  std::string name;
  int num_hosts = 1;
  int ranks_per_host = 1;
  Link local;    // between ranks of a host: the rate of stores into a peer's memory
  Link network;  // between hosts: what one host, or one pair of hosts, sends in one direction
  Fabric fabric = Fabric::nic;
  double flops_per_s = 0;          // gemm, f32: multiply-adds alone
  double library_flops_per_s = 0;  // the same by the fastest library at hand; 0: there was none, or nobody looked
  double read_bytes_per_s = 0;     // from memory, streaming
  double write_bytes_per_s = 0;    // to memory: copies and sums
  double tile_bytes_per_s = 0;     // to memory, as a gemm makes its tiles where they belong: beside its arithmetic
  double gather_bytes_per_s = 0;   // rows of a table, looked up at random, from memory
  double gather_cached_bytes_per_s = 0;  // and of one that stays in the rank's part of the last-level cache
  double cache_bytes = 0;         // a run that touches no more than this on a rank is served by the rank's cache,
  double cache_bytes_per_s = 0;   // at this rate, whatever it does
  double shared_cache_bytes = 0;  // a rank's part of the last-level cache: weights no larger than this stay in it
  double row_s = 0;               // an output of a gemv beside reading its weights
  double signal_s = 0;            // raising a counter a peer on the host is waiting for, until it sees it
  double step_s = 0;              // a tile beside its arithmetic
  double run_s = 0;               // starting a run and waiting for its output
  // CPU time that a rank spends on a message to or from another host, and on each byte of it. 0: none, as where a link
  // is only paced, or hardware moves the bytes.
  double wire_message_s = 0;
  double wire_byte_s = 0;

  int size() const { return num_hosts * ranks_per_host; }
  int host_of(int rank) const;  // ranks fill hosts in blocks; throws bad_input for a rank there is not
  double fastest_flops_per_s() const { return std::max(flops_per_s, library_flops_per_s); }

  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Both throw bad_input naming file, field, value and remedy: every field but library_flops_per_s is required, of its
// type, in range and finite, and no other field but "note" is taken.
Cluster parse_cluster(std::string_view json, std::string_view where);
Cluster load_cluster(const std::string& path);
std::string to_json(const Cluster& cluster);  // parse_cluster reads back the same value

// Ranks as threads or processes of one host over shared memory, a core each, as measured on one such machine; the
// network is assumed.
Cluster default_cluster(int num_ranks = 2);

// The cluster with what UCX over TCP costs a core at each end, where it does not say (bench/wire_floor: 1.0 to 1.3 ns a
// byte for both ends together; the more a message, the smaller they are).
Cluster with_wire(Cluster cluster);

// The cluster with products as the fastest library makes them: what computing costs at least.
Cluster by_fastest_product(Cluster cluster);

// The cluster with that many cores for each of its ranks: 0.5 where two ranks share one, 2 where a rank has two
// threads.
Cluster with_cores(Cluster cluster, double cores_a_rank);

// "shm": the local link of the default cluster. "10gbit,10us": a rate and a latency; a rate alone has
// none. "10gbit,10us,nic" or ",pairs": with its fabric; without, pairs. Units as in weft/base/units.h.
Link parse_link(std::string_view text);
// "1.25 GB/s,10.0 us", with ",nic" behind where it is one; parse_link reads it, to the digits shown.
std::string to_string(const Link& link);

}  // namespace weft
