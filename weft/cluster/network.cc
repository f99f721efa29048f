// Networks as files. Two forms are read: the explicit one that to_json writes, with every NIC, rank and rack, and a
// short one for hosts that are all alike. Both are checked by the same rules as a Network made in code.
#include "weft/cluster/network.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/cluster/link_json.h"

namespace weft {
namespace {

constexpr int kMaxParts = 1 << 20;  // ranks, NICs, hosts or racks

int get_count(const Json& object, std::string_view key, std::string_view where, int min, int max) {
  return get_small(object, key, where, min, max);
}

std::vector<int> get_indices(const Json& object, std::string_view key, std::string_view where) {
  std::vector<int> values;
  for (const Json& value : get_array(object, key, where)) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() >= kMaxParts)
      bad_input("{}: entry {} of \"{}\" is {}; give whole numbers from 0 to {}", where, values.size(), key,
                value.dump(-1, ' ', false, Json::error_handler_t::replace), kMaxParts - 1);
    values.push_back(value.get<int>());
  }
  return values;
}

Network parse_explicit(const Json& object, std::string_view where) {
  check_fields(object, {"name", "note", "nics", "nic_of", "rack_of", "uplinks", "local", "latency_s"}, where);
  Network network;
  for (const Json& nic : get_array(object, "nics", where)) {
    const std::string inside = fmt::format("{}: NIC {}", where, network.nics.size());
    check_fields(nic, {"host", "bytes_per_s"}, inside);
    network.nics.push_back(
        {get_count(nic, "host", inside, 0, kMaxParts), get_double(nic, "bytes_per_s", inside, kMinRate, kMaxRate)});
  }
  network.nic_of = get_indices(object, "nic_of", where);
  network.rack_of = get_indices(object, "rack_of", where);
  for (const Json& uplink : get_array(object, "uplinks", where)) {
    const std::string inside = fmt::format("{}: uplink of rack {}", where, network.uplink.size());
    check_fields(uplink, {"bytes_per_s"}, inside);
    network.uplink.push_back(get_double(uplink, "bytes_per_s", inside, 0, kMaxRate));
  }
  return network;
}

// Hosts that are all alike; rank d of a host is near NIC d * nics / ranks of it.
Network parse_alike(const Json& object, std::string_view where) {
  check_fields(object,
               {"name", "note", "num_hosts", "ranks_per_host", "nics_per_host", "nic_bytes_per_s", "hosts_per_rack",
                "uplink_bytes_per_s", "local", "latency_s"},
               where);
  const int hosts = get_count(object, "num_hosts", where, 1, kMaxParts);
  const int ranks = get_count(object, "ranks_per_host", where, 1, kMaxParts / hosts);
  const int nics = get_count(object, "nics_per_host", where, 1, ranks);
  const double rate = get_double(object, "nic_bytes_per_s", where, kMinRate, kMaxRate);
  int hosts_per_rack = hosts;
  double uplink = 0;
  if (find_field(object, "hosts_per_rack", where) || find_field(object, "uplink_bytes_per_s", where)) {
    hosts_per_rack = get_count(object, "hosts_per_rack", where, 1, hosts);
    uplink = get_double(object, "uplink_bytes_per_s", where, 0, kMaxRate);
  }
  Network network;
  for (int host = 0; host < hosts; ++host) {
    network.rack_of.push_back(host / hosts_per_rack);
    for (int nic = 0; nic < nics; ++nic) network.nics.push_back({host, rate});
    for (int rank = 0; rank < ranks; ++rank) network.nic_of.push_back(host * nics + rank * nics / ranks);
  }
  network.uplink.assign(at(network.rack_of.back() + 1), uplink);
  return network;
}

void check_rate(double rate, double min, std::string_view what, std::string_view where) {
  if (!(rate >= min && rate <= kMaxRate))
    bad_input("{}: {} moves {} bytes a second; give a number from {} to {}", where, what, rate, min, kMaxRate);
}

}  // namespace

void check_network(const Network& network, std::string_view where) {
  const int hosts = network.num_hosts(), racks = int_size(network.uplink);
  if (network.nic_of.empty()) bad_input("{}: a network without ranks; name a NIC for at least one", where);
  for (int host = 0; host < hosts; ++host)
    if (const int rack = network.rack_of[at(host)]; rack < 0 || rack >= racks)
      bad_input("{}: host {} is in rack {}, but there are {} racks; number racks from 0 and give each an uplink", where,
                host, rack, racks);
  for (std::size_t i = 0; i < network.nics.size(); ++i) {
    if (network.nics[i].host < 0 || network.nics[i].host >= hosts)
      bad_input("{}: NIC {} is in host {}, but there are {} hosts; number hosts from 0 and give each a rack", where, i,
                network.nics[i].host, hosts);
    check_rate(network.nics[i].bytes_per_s, kMinRate, fmt::format("NIC {}", i), where);
  }
  for (int rank = 0; rank < network.num_ranks(); ++rank)
    if (const int nic = network.nic_of[at(rank)]; nic < 0 || at(nic) >= network.nics.size())
      bad_input("{}: rank {} is near NIC {}, but there are {} NICs; number them from 0", where, rank, nic,
                network.nics.size());
  for (std::size_t i = 0; i < network.uplink.size(); ++i)
    if (network.uplink[i] != 0) check_rate(network.uplink[i], kMinRate, fmt::format("the uplink of rack {}", i), where);
  check_rate(network.local.bytes_per_s, kMinRate, "\"local\"", where);
  if (!(network.latency_s >= 0 && network.latency_s <= kMaxSeconds))
    bad_input("{}: \"latency_s\" is {}; give a number from 0 to {}", where, network.latency_s, kMaxSeconds);
}

Network one_nic_a_host(int hosts, int devices, const Link& link, const Link& local) {
  if (hosts < 1 || devices < 1 || hosts > kMaxParts / devices)
    bad_input("a network of {} hosts x {} devices; use at least 1 of each and at most {} in all", hosts, devices,
              kMaxParts);
  std::vector<int> host_of;
  for (int rank = 0; rank < hosts * devices; ++rank) host_of.push_back(rank / devices);
  return one_nic_a_host(host_of, link, local);
}

Network one_nic_a_host(const std::vector<int>& host_of, const Link& link, const Link& local) {
  if (host_of.empty()) bad_input("a network without ranks; give the host of at least one");
  const auto [low, high] = std::minmax_element(host_of.begin(), host_of.end());
  if (*low < 0 || *high >= kMaxParts)
    bad_input("a rank is on host {}; number hosts from 0 to {}", *low < 0 ? *low : *high, kMaxParts - 1);
  Network network;
  network.name = "one-nic-a-host";
  for (int host = 0; host <= *high; ++host) network.nics.push_back({host, link.bytes_per_s});
  network.nic_of = host_of;
  network.rack_of.assign(network.nics.size(), 0);
  network.uplink = {0};
  network.local = local;
  network.latency_s = link.latency_s;
  check_network(network, network.name);
  return network;
}

Network parse_network(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where);
  const bool is_alike = find_field(object, "num_hosts", where) != nullptr;
  Network network = is_alike ? parse_alike(object, where) : parse_explicit(object, where);
  network.name = get_string(object, "name", where);
  network.local = get_link(object, "local", where);
  network.latency_s = get_double(object, "latency_s", where, 0, kMaxSeconds);
  check_network(network, where);
  return network;
}

Network load_network(const std::string& path) {
  return parse_network(read_text_file(path, std::size_t{64} << 20), path);
}

std::string to_json(const Network& network) {
  using Value = nlohmann::ordered_json;
  Value nics = Value::array(), uplinks = Value::array();
  for (const Nic& nic : network.nics) nics.push_back({{"host", nic.host}, {"bytes_per_s", nic.bytes_per_s}});
  for (const double uplink : network.uplink) uplinks.push_back({{"bytes_per_s", uplink}});
  const Value value = {
      {"name", network.name},
      {"nics", nics},
      {"nic_of", network.nic_of},
      {"rack_of", network.rack_of},
      {"uplinks", uplinks},
      {"local", {{"bytes_per_s", network.local.bytes_per_s}, {"latency_s", network.local.latency_s}}},
      {"latency_s", network.latency_s},
  };
  return json_lines(value);
}

}  // namespace weft
