#include "cli/reshard/seats.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft::cli {

int paced_ranks_per_host(const ReshardSpec& spec) {
  return *std::max_element(spec.devices_of_host.begin(), spec.devices_of_host.end());
}

std::vector<int> paced_hosts(const ReshardSpec& spec) {
  const int each = paced_ranks_per_host(spec);
  return hosts_in_blocks(each * int_size(spec.devices_of_host), each);
}

ReshardSpec seated(const ReshardSpec& spec, const std::vector<int>& host_of) {
  const std::size_t hosts = spec.devices_of_host.size();
  std::vector<std::vector<int>> ranks_on(hosts);
  bool fits = true;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto host = num(host_of[rank]);
    fits = fits && host < hosts;
    if (fits) ranks_on[host].push_back(static_cast<int>(rank));
  }
  for (std::size_t h = 0; h < hosts; ++h) fits = fits && ranks_on[h].size() >= num(spec.devices_of_host[h]);
  if (!fits)
    bad_input(
        "the meshes need {} hosts with {} ranks each, in this order, and the world has {} ranks on {} hosts; start it "
        "so, as with `weft cluster up --hosts {}` and `weft cluster run -n {}`",
        hosts, fmt::join(spec.devices_of_host, ", "), host_of.size(),
        1 + *std::max_element(host_of.begin(), host_of.end()), hosts,
        paced_ranks_per_host(spec) * static_cast<int>(hosts));
  ReshardSpec out = spec;
  std::vector<std::size_t> taken(hosts, 0);
  std::vector<int> seat(num(spec.network.num_ranks()));
  out.network.nic_of.assign(host_of.size(), 0);
  for (std::size_t h = 0; h < hosts; ++h) {  // idle ranks are near their host's first NIC
    const auto first = std::find_if(out.network.nics.begin(), out.network.nics.end(),
                                    [&](const Nic& nic) { return nic.host == static_cast<int>(h); });
    for (const int rank : ranks_on[h])
      out.network.nic_of[at(rank)] = static_cast<int>(first - out.network.nics.begin());
  }
  for (int rank = 0; rank < spec.network.num_ranks(); ++rank) {
    const auto host = num(spec.network.host_of(rank));
    const int here = ranks_on[host][taken[host]++];
    seat[at(rank)] = here;
    out.network.nic_of[at(here)] = spec.network.nic_of[at(rank)];
  }
  for (Placement& placement : out.reshard.placements)
    for (int& rank : placement.ranks) rank = seat[at(rank)];
  out.reshard.num_ranks = int_size(host_of);
  return out;
}

}  // namespace weft::cli
