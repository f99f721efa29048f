#include "weft/virtual/hosts.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/virtual/quota.h"

namespace weft::virtual_hosts {
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

std::string file_of(const std::string& set) { return hosts_folder(set) + "/hosts.json"; }

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

void check_hosts_name(const std::string& name) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0; };
  const bool good = !name.empty() && name.size() <= 32 && letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || c == '_' || c == '-'; });
  if (!good) bad_input("--name is \"{}\"; use 1 to 32 letters, digits, '_' and '-'", name);
}

std::string host_name(const std::string& set, int index) { return fmt::format("{}{}-{}", kPrefix, set, index); }
std::string switch_name(const std::string& set) { return fmt::format("{}{}-switch", kPrefix, set); }
std::string namespace_path(const std::string& name) { return fmt::format("{}/{}", kNamespaces, name); }
std::string hosts_folder(const std::string& set) { return fmt::format("{}/{}", kFolders, set); }

std::string hosts_of(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (!name.starts_with(kPrefix) || dash == std::string_view::npos || dash <= kPrefix.size()) return {};
  const std::string_view last = name.substr(dash + 1);
  const bool number =
      !last.empty() && std::all_of(last.begin(), last.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number || last == "switch" ? std::string(name.substr(kPrefix.size(), dash - kPrefix.size())) : std::string();
}

std::vector<std::string> find_virtual_hosts() {
  std::set<std::string> names;
  for (const auto& list : {entries(kNamespaces), find_quotas()})
    for (const std::string& name : list)
      if (auto set = hosts_of(name); !set.empty()) names.insert(std::move(set));
  for (const std::string& name : entries(kFolders))
    if (fs::is_directory(hosts_folder(name))) names.insert(name);
  return {names.begin(), names.end()};
}

std::vector<std::string> find_namespaces(const std::string& set) {
  std::vector<std::string> names = entries(kNamespaces);
  std::erase_if(names, [&](const std::string& name) { return hosts_of(name) != set; });
  return names;
}

nlohmann::ordered_json to_json(const VirtualHost& host) {
  return {{"name", host.name},          {"address", host.address},        {"device", kHostDevice},
          {"namespace", host.name},     {"rate", or_null(host.rate)},     {"cpus", or_null(host.cpus)},
          {"core", or_null(host.core)}, {"tx_bytes", or_null(host.sent)}, {"rx_bytes", or_null(host.received)}};
}

void save_virtual_hosts(const VirtualHosts& all) {
  nlohmann::ordered_json file{{"name", all.name}, {"hosts", nlohmann::ordered_json::array()}};
  for (const VirtualHost& host : all.hosts) file["hosts"].push_back(to_json(host));
  write_file(file_of(all.name), json_lines(file));
}

VirtualHosts load_virtual_hosts(const std::string& name) {
  check_hosts_name(name);
  const std::string path = file_of(name);
  if (!fs::exists(path)) {
    const auto all = find_virtual_hosts();
    if (std::find(all.begin(), all.end(), name) != all.end())
      bad_input("cluster \"{}\" is not whole; `weft cluster down --name {}` removes what there is of it", name, name);
    bad_input("there is no cluster \"{}\"; make one with `weft cluster up --name {}`", name, name);
  }
  const auto file = load_json(path);
  VirtualHosts all{.name = name};
  for (const auto& host : get_array(file, "hosts", path)) all.hosts.push_back(parse_host(host, path));
  for (const VirtualHost& host : all.hosts)
    if (!fs::exists(namespace_path(host.name)))
      bad_input("cluster \"{}\" has lost host {}; `weft cluster down --name {}`, then up again", name, host.name, name);
  if (all.hosts.empty()) bad_input("{}: no hosts; `weft cluster down --name {}`, then up again", path, name);
  return all;
}

}  // namespace weft::virtual_hosts
