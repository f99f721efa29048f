#include "weft/virtual/cluster.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/virtual/quota.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNamespaces = "/run/netns";  // where iproute2 keeps them
constexpr const char* kFolders = "/run/weft";
constexpr std::string_view kPrefix = "weft-";

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string file_of(const std::string& cluster) { return cluster_folder(cluster) + "/hosts.json"; }

std::optional<double> optional_number(const nlohmann::json& object, const char* key) {
  return object.contains(key) && object[key].is_number() ? std::optional(object[key].get<double>()) : std::nullopt;
}

VirtualHost parse_host(const nlohmann::json& object, const std::string& where) {
  VirtualHost host{.name = get_string(object, "name", where), .address = get_string(object, "address", where)};
  host.rate = optional_number(object, "rate");
  host.cpus = optional_number(object, "cpus");
  if (const auto core = optional_number(object, "core")) host.core = static_cast<int>(*core);
  return host;
}

}  // namespace

void check_cluster_name(const std::string& name) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0; };
  const bool good = !name.empty() && name.size() <= 32 && letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '_' || c == '-'; });
  if (!good) bad_input("--name is \"{}\"; use 1 to 32 letters, digits, '_' and '-'", name);
}

std::string host_name(const std::string& cluster, int index) { return fmt::format("{}{}-{}", kPrefix, cluster, index); }
std::string switch_name(const std::string& cluster) { return fmt::format("{}{}-switch", kPrefix, cluster); }
std::string namespace_path(const std::string& name) { return fmt::format("{}/{}", kNamespaces, name); }
std::string cluster_folder(const std::string& cluster) { return fmt::format("{}/{}", kFolders, cluster); }

std::string cluster_of(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (!name.starts_with(kPrefix) || dash == std::string_view::npos || dash <= kPrefix.size()) return {};
  const std::string_view last = name.substr(dash + 1);
  const bool number =
      !last.empty() && std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number || last == "switch" ? std::string(name.substr(kPrefix.size(), dash - kPrefix.size())) : std::string();
}

std::vector<std::string> find_virtual_clusters() {
  std::set<std::string> names;
  for (const auto& list : {entries(kNamespaces), find_quotas()})
    for (const std::string& name : list)
      if (auto cluster = cluster_of(name); !cluster.empty()) names.insert(std::move(cluster));
  for (const std::string& name : entries(kFolders))
    if (fs::is_directory(cluster_folder(name))) names.insert(name);
  return {names.begin(), names.end()};
}

std::vector<std::string> find_namespaces(const std::string& cluster) {
  std::vector<std::string> names = entries(kNamespaces);
  std::erase_if(names, [&](const std::string& name) { return cluster_of(name) != cluster; });
  return names;
}

nlohmann::ordered_json to_json(const VirtualHost& host) {
  const auto or_null = [](const auto& value) { return value ? nlohmann::ordered_json(*value) : nullptr; };
  return {{"name", host.name},          {"address", host.address},        {"device", kHostDevice},
          {"namespace", host.name},     {"rate", or_null(host.rate)},     {"cpus", or_null(host.cpus)},
          {"core", or_null(host.core)}, {"tx_bytes", or_null(host.sent)}, {"rx_bytes", or_null(host.received)}};
}

void save_virtual_cluster(const VirtualCluster& cluster) {
  nlohmann::ordered_json file{{"name", cluster.name}, {"hosts", nlohmann::ordered_json::array()}};
  for (const VirtualHost& host : cluster.hosts) file["hosts"].push_back(to_json(host));
  const std::string path = file_of(cluster.name);
  std::ofstream stream(path);
  stream << file.dump(2) << "\n";
  stream.close();
  if (!stream) fail(Code::io, "cannot write \"{}\"; is /run full?", path);
}

VirtualCluster load_virtual_cluster(const std::string& name) {
  check_cluster_name(name);
  const std::string path = file_of(name);
  if (!fs::exists(path)) {
    const auto all = find_virtual_clusters();
    if (std::find(all.begin(), all.end(), name) != all.end())
      bad_input("cluster \"{}\" is not whole; `weft cluster down --name {}` removes what there is of it", name, name);
    bad_input("there is no cluster \"{}\"; make one with `weft cluster up --name {}`", name, name);
  }
  const auto file = load_json(path);
  VirtualCluster cluster{.name = name};
  for (const auto& host : get_array(file, "hosts", path)) cluster.hosts.push_back(parse_host(host, path));
  for (const VirtualHost& host : cluster.hosts)
    if (!fs::exists(namespace_path(host.name)))
      bad_input("cluster \"{}\" has lost host {}; `weft cluster down --name {}`, then up again", name, host.name, name);
  if (cluster.hosts.empty()) bad_input("{}: no hosts; `weft cluster down --name {}`, then up again", path, name);
  return cluster;
}

}  // namespace weft::cli
