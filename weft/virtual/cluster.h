// Virtual hosts: a host is a network namespace with one shaped link, on this machine. What is here are their names, and
// what of them can be found: everything the kernel holds for a cluster carries the cluster's name, so that it can be
// found and taken down when its file is lost and whoever made it has died.
//
//   namespaces   weft-NAME-0, weft-NAME-1, ... the hosts, each with the device eth0
//                weft-NAME-switch              a bridge with a port for each host; nothing of it is seen from outside
//   cgroups      weft-NAME-0, ...              where hosts have CPU quotas
//   folder       /run/weft/NAME                hosts.json, and what `run` needs
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace weft::cli {

inline constexpr const char* kHostDevice = "eth0";  // in every host

struct VirtualHost {
  std::string name;                            // of the host, its namespace and its cgroup
  std::string address;                         // of eth0
  std::optional<double> rate;                  // bytes a second in each direction; none: as fast as memory
  std::optional<double> cpus;                  // the quota, in cores
  std::optional<int> core;                     // the one it is pinned to
  std::optional<std::int64_t> sent, received;  // bytes through eth0 so far, with headers; none: not to be read
};

struct VirtualCluster {
  std::string name;
  std::vector<VirtualHost> hosts;
};

// bad_input unless it is 1 to 32 letters, digits, '_' and '-', beginning with a letter or digit.
void check_cluster_name(const std::string& name);

std::string host_name(const std::string& cluster, int index);
std::string switch_name(const std::string& cluster);
std::string namespace_path(const std::string& name);  // a file that setns() takes
std::string cluster_folder(const std::string& cluster);
std::string cluster_of(std::string_view name);  // NAME of "weft-NAME-3" and "weft-NAME-switch"; empty: not ours

// What is there, as the kernel and the folders tell: whole clusters and parts of them. In order.
std::vector<std::string> find_virtual_clusters();
std::vector<std::string> find_namespaces(const std::string& cluster);

// Written as the last act of `up`. load throws bad_input where there is no such cluster or it is not whole.
void save_virtual_cluster(const VirtualCluster& cluster);
VirtualCluster load_virtual_cluster(const std::string& name);
nlohmann::ordered_json to_json(const VirtualHost& host);

}  // namespace weft::cli
