#include "weft/reshard/seats.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

// The ranks of each host of the world.
std::vector<std::vector<int>> seats_of(const Network& network, const std::vector<int>& host_of) {
  const std::vector<int> needed = ranks_on_hosts(network);
  std::vector<std::vector<int>> seats(needed.size());
  bool fits = true;
  for (int rank = 0; rank < int_size(host_of); ++rank) {
    fits = fits && host_of[at(rank)] < int_size(seats);
    if (fits) seats[at(host_of[at(rank)])].push_back(rank);
  }
  for (std::size_t host = 0; host < needed.size(); ++host) fits = fits && int_size(seats[host]) >= needed[host];
  if (!fits)
    bad_input(
        "the meshes need {} hosts with {} ranks each, in this order, and the world has {} ranks on {} hosts; start it "
        "so, as with `weft cluster up --hosts {}` and `weft cluster run -n {}`",
        needed.size(), fmt::join(needed, ", "), host_of.size(), 1 + *std::max_element(host_of.begin(), host_of.end()),
        needed.size(), seats_per_host(network) * int_size(needed));
  return seats;
}

int first_nic(const Network& network, int host) {
  const auto found =
      std::find_if(network.nics.begin(), network.nics.end(), [&](const Nic& nic) { return nic.host == host; });
  return static_cast<int>(found - network.nics.begin());
}

}  // namespace

std::vector<int> ranks_on_hosts(const Network& network) {
  std::vector<int> ranks(num(network.num_hosts()), 0);
  for (int rank = 0; rank < network.num_ranks(); ++rank) ++ranks[at(network.host_of(rank))];
  return ranks;
}

int seats_per_host(const Network& network) {
  const std::vector<int> ranks = ranks_on_hosts(network);
  return *std::max_element(ranks.begin(), ranks.end());
}

Seated seated(const Reshard& reshard, const Network& network, const std::vector<int>& host_of) {
  const std::vector<std::vector<int>> seats = seats_of(network, host_of);
  Seated out{reshard, network};
  out.network.nic_of.assign(host_of.size(), 0);
  for (int host = 0; host < int_size(seats); ++host)  // idle ranks are near their host's first NIC
    for (const int rank : seats[at(host)]) out.network.nic_of[at(rank)] = first_nic(network, host);
  std::vector<std::size_t> taken(seats.size(), 0);
  std::vector<int> seat_of;
  for (int rank = 0; rank < network.num_ranks(); ++rank) {
    const std::size_t host = at(network.host_of(rank));
    seat_of.push_back(seats[host][taken[host]++]);
    out.network.nic_of[at(seat_of.back())] = network.nic_of[at(rank)];
  }
  for (Placement& placement : out.reshard.placements)
    for (int& rank : placement.ranks) rank = seat_of[at(rank)];
  out.reshard.num_ranks = int_size(host_of);
  return out;
}

}  // namespace weft
