#include "weft/reshard/schedule/resources.h"

#include <algorithm>
#include <limits>

#include "weft/base/index.h"

namespace weft {

Resources::Resources(const Network& network)
    : network_(network), num_nics_(int_size(network.nics)), num_racks_(int_size(network.uplink)) {
  for (int direction = 0; direction < 2; ++direction)
    for (const Nic& nic : network.nics) rate_.push_back(nic.bytes_per_s);
  for (int direction = 0; direction < 2; ++direction)
    for (const double uplink : network.uplink)
      rate_.push_back(uplink > 0 ? uplink : std::numeric_limits<double>::infinity());
}

bool Resources::has_uplinks() const {
  return std::any_of(network_.uplink.begin(), network_.uplink.end(), [](double rate) { return rate > 0; });
}

std::vector<Use> Resources::uses(const std::vector<Chunk>& chunks) const {
  std::vector<Use> all;
  for (const Chunk& chunk : chunks) {
    const double bytes = chunk.bytes;
    for (const Hop& hop : chunk.hops) {
      const int from = network_.nic_of[at(hop.from)], to = network_.nic_of[at(hop.to)];
      const int from_host = network_.nics[at(from)].host, to_host = network_.nics[at(to)].host;
      if (from_host == to_host) continue;
      all.push_back({out(from), bytes});
      all.push_back({in(to), bytes});
      const int from_rack = network_.rack_of[at(from_host)], to_rack = network_.rack_of[at(to_host)];
      if (from_rack == to_rack) continue;
      all.push_back({up(from_rack), bytes});
      all.push_back({down(to_rack), bytes});
    }
  }
  std::sort(all.begin(), all.end(), [](const Use& a, const Use& b) { return a.resource < b.resource; });
  std::vector<Use> merged;
  for (const Use& use : all) {
    if (!merged.empty() && merged.back().resource == use.resource)
      merged.back().bytes += use.bytes;
    else
      merged.push_back(use);
  }
  return merged;
}

double Resources::seconds(const std::vector<Use>& uses) const {
  double longest = 0;
  for (const Use& use : uses) longest = std::max(longest, use.bytes / rate(use.resource));
  return longest;
}

}  // namespace weft
