// Virtual hosts: a host is a network namespace with one shaped link, on this machine. What is here are their names, and
// what of them can be found. Hosts that are made together are a set with a name, and everything that the kernel holds
// for a set carries that name, so that it can be found and taken down when its file is lost and whoever made it has
// died.
//
//   namespaces   weft-NAME-0, weft-NAME-1, ... the hosts, each with the device eth0
//                weft-NAME-switch              a bridge with one port per host; nothing of it is seen from outside
//   cgroups      weft-NAME-0, ...              where hosts have CPU quotas
//   folder       /run/weft/NAME                hosts.json, and what `run` needs
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace weft::virtual_hosts {

inline constexpr const char* kHostDevice = "eth0";  // in every host

struct VirtualHost {
  std::string name;                            // of the host, its namespace and its cgroup
  std::string address;                         // of eth0
  std::optional<double> rate;                  // bytes a second in each direction; none: as fast as memory
  std::optional<double> cpus;                  // the quota, in cores
  std::optional<int> core;                     // the one it is pinned to
  std::optional<std::int64_t> sent, received;  // bytes through eth0 so far, with headers; none: not to be read
};

struct VirtualHosts {
  std::string name;
  std::vector<VirtualHost> hosts;
};

// bad_input unless it is 1 to 32 letters, digits, '_' and '-', beginning with a letter or digit.
void check_hosts_name(const std::string& name);

std::string host_name(const std::string& set, int index);
std::string switch_name(const std::string& set);
std::string namespace_path(const std::string& name);  // a file that setns() takes
std::string hosts_folder(const std::string& set);
std::string hosts_of(std::string_view name);  // NAME of "weft-NAME-3" and "weft-NAME-switch"; empty: not ours

// What is there, as the kernel and the folders tell: whole clusters and parts of them. In order.
std::vector<std::string> find_virtual_hosts();
std::vector<std::string> find_namespaces(const std::string& set);

// Written as the last act of `up`. load throws bad_input where there is no such set or it is not whole.
void save_virtual_hosts(const VirtualHosts& all);
VirtualHosts load_virtual_hosts(const std::string& name);
nlohmann::ordered_json to_json(const VirtualHost& host);

}  // namespace weft::virtual_hosts
