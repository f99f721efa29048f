#include "weft/reshard/bound/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "weft/base/index.h"

namespace weft {
namespace {

std::vector<int> nics_of(const Site& site) {
  std::vector<int> nics;
  for (const Door& door : site.doors) nics.push_back(door.nic);
  return nics;
}

// Bytes of all tasks that have the same sites, by id.
std::vector<double> bytes_by_sites(const std::vector<Task>& tasks, const SiteTable& table,
                                   std::vector<const Sites*>& sites) {
  std::vector<double> bytes(at(table.num_sites()), 0.0);
  sites.assign(bytes.size(), nullptr);
  for (int i = 0; i < int_size(tasks); ++i) {
    const int id = table.id(i);
    bytes[at(id)] += tasks[at(i)].bytes;
    sites[at(id)] = &table.of(i);
  }
  return bytes;
}

double uplink_seconds(const std::vector<const Sites*>& sites, const std::vector<double>& bytes,
                      const Network& network) {
  std::vector<double> out(network.uplink.size(), 0.0), in(network.uplink.size(), 0.0);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    std::set<int> holding, wanting;
    for (const Site& site : sites[i]->holding) holding.insert(network.rack_of[at(site.host)]);
    for (const Site& site : sites[i]->wanting) {
      const int rack = network.rack_of[at(site.host)];
      if (!holding.count(rack)) wanting.insert(rack);
    }
    for (const int rack : wanting) in[at(rack)] += bytes[i];
    if (!wanting.empty() && holding.size() == 1) out[at(*holding.begin())] += bytes[i];
  }
  double seconds = 0;
  for (std::size_t rack = 0; rack < in.size(); ++rack)
    if (network.uplink[rack] > 0) seconds = std::max(seconds, std::max(in[rack], out[rack]) / network.uplink[rack]);
  return seconds;
}

// Bytes of an element on the wire, the greatest that divides those of all tasks: what a NIC carries is a multiple of
// it.
std::int64_t grain_of(const std::vector<Task>& tasks) {
  std::int64_t grain = 0;
  for (const Task& task : tasks) grain = std::gcd(grain, task.bytes / std::max<std::int64_t>(task.box.volume(), 1));
  return std::max<std::int64_t>(grain, 1);
}

// The time of what binds, when every NIC carries whole elements only: the least T with the sum of floor(T rate / grain)
// over its NICs at least the elements that they alone can carry.
double in_whole_elements(const Division& division, const std::vector<double>& rates, double grain) {
  if (division.cut_bins.empty()) return division.time;
  const double elements = division.cut_amount / grain;
  const auto carried = [&](double time, int nic) { return std::floor(time * rates[at(nic)] / grain * (1 + 1e-12)); };
  double time = division.cut_amount;
  double rate = 0;
  for (const int nic : division.cut_bins) rate += rates[at(nic)];
  time /= rate;
  while (true) {
    double sum = 0, next = std::numeric_limits<double>::infinity();
    for (const int nic : division.cut_bins) {
      sum += carried(time, nic);
      next = std::min(next, (carried(time, nic) + 1) * grain / rates[at(nic)]);
    }
    if (sum >= elements * (1 - 1e-12)) return time;
    time = next;
  }
}

}  // namespace

std::vector<double> nic_rates(const Network& network) {
  std::vector<double> rates;
  for (const Nic& nic : network.nics) rates.push_back(nic.bytes_per_s);
  return rates;
}

double Loads::seconds() const { return std::max({ingress_s, egress_s, uplink_s}); }

Loads loads_of(const std::vector<Task>& tasks, const SiteTable& table, const Network& network) {
  Loads loads;
  std::vector<const Sites*> sites;
  const std::vector<double> bytes = bytes_by_sites(tasks, table, sites);
  DemandList ingress, egress;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const std::vector<Site>& wanting = sites[i]->wanting;
    loads.entry.emplace_back();
    for (const Site& site : wanting) loads.entry.back().push_back(ingress.add(nics_of(site), bytes[i]));
    loads.first.push_back(wanting.empty() ? -1 : egress.add(sites[i]->exits, bytes[i]));
    const double copies = wanting.size();
    loads.rest.push_back(copies < 2 ? -1 : egress.add(sites[i]->relays, bytes[i] * (copies - 1), 1));
  }
  loads.ingress_demands = ingress.all();
  loads.egress_demands = egress.all();
  const std::vector<double> rates = nic_rates(network);
  loads.ingress = divide(loads.ingress_demands, rates);
  loads.egress = divide(loads.egress_demands, rates);
  const double grain = grain_of(tasks);
  loads.ingress_s = in_whole_elements(loads.ingress, rates, grain);
  loads.egress_s = in_whole_elements(loads.egress, rates, grain);
  loads.uplink_s = uplink_seconds(sites, bytes, network);
  const double bound = loads.seconds();
  if (loads.ingress.time < bound) loads.ingress = divide(loads.ingress_demands, rates, bound);
  if (loads.egress.time < bound) loads.egress = divide(loads.egress_demands, rates, bound);
  return loads;
}

}  // namespace weft
