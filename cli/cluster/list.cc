// `weft cluster list` and `weft cluster down`: what there is, and its end.
#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/virtual/lock.h"
#include "weft/virtual/network.h"
#include "weft/virtual/remove.h"
#include "weft/virtual/tools.h"

#include "cli/cluster/cluster.h"

namespace weft::cli::cluster {
namespace {

using Json = nlohmann::ordered_json;

struct ListFlags {
  std::string name;
  bool named = false, all = false, json = false;
};

// A set that is not whole has no hosts here.
VirtualHosts look_at(const std::string& name) {
  try {
    VirtualHosts all = load_virtual_hosts(name);
    for (VirtualHost& host : all.hosts) read_counters(host);
    return all;
  } catch (const Error&) {
    return {.name = name, .hosts = {}};
  }
}

// All hosts in one list, for those who know their names; and by set.
int list(const ListFlags& flags) {
  if (flags.named) load_virtual_hosts(flags.name);  // says what is wrong with it
  std::vector<VirtualHosts> clusters;
  for (const std::string& name : flags.named ? std::vector{flags.name} : find_virtual_hosts())
    clusters.push_back(look_at(name));
  if (flags.json) {
    Json out{{"clusters", Json::array()}, {"hosts", Json::array()}};
    for (const VirtualHosts& all : clusters) {
      out["clusters"].push_back({{"name", all.name}, {"hosts", all.hosts.size()}, {"whole", !all.hosts.empty()}});
      for (const VirtualHost& host : all.hosts) out["hosts"].push_back(to_json(host));
    }
    fmt::print("{}", json_line(out));
    return 0;
  }
  if (clusters.empty()) fmt::print("no virtual clusters; make one with `weft cluster up`\n");
  for (const VirtualHosts& all : clusters) {
    fmt::print("{}{}\n", all.name, all.hosts.empty() ? ": not whole; take it down" : "");
    if (!all.hosts.empty()) fmt::print("{}", hosts_table(all));
  }
  return 0;
}

int down(const ListFlags& flags) {
  if (flags.all && flags.named) bad_input("--all and --name {} are both given; use one", flags.name);
  check_hosts_name(flags.name);
  require_root("taking virtual hosts down");
  const HostsLock lock;
  Json removed = Json::array();
  for (const std::string& name : flags.all ? find_virtual_hosts() : std::vector{flags.name}) {
    const Removed gone = remove_virtual_hosts(name);
    if (!gone.anything) continue;
    removed.push_back(
        {{"name", name}, {"namespaces", gone.namespaces}, {"cgroups", gone.quotas}, {"processes", gone.processes}});
    if (!flags.json)
      fmt::print("{}: removed {} namespaces and {} cgroups; {} processes were still running\n", name, gone.namespaces,
                 gone.quotas, gone.processes);
  }
  if (flags.json) fmt::print("{}", json_line(Json{{"hosts", Json::array()}, {"removed", removed}}));
  if (!flags.json && removed.empty()) fmt::print("there is nothing to take down\n");
  return 0;
}

}  // namespace

void add_cluster_list(CLI::App& cluster, Run* chosen) {
  auto* command = cluster.add_subcommand("list", "virtual hosts that there are, and bytes sent and received by each");
  auto flags = std::make_shared<ListFlags>();
  add_name_flag(*command, &flags->name);
  command->get_option("--name")->description("this cluster alone");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer("Example:\n  weft cluster list --json");
  command->callback([=] {
    flags->named = command->count("--name") > 0;
    *chosen = [flags] { return list(*flags); };
  });
}

void add_cluster_down(CLI::App& cluster, Run* chosen) {
  auto* command = cluster.add_subcommand("down", "remove virtual hosts and end what runs on them");
  auto flags = std::make_shared<ListFlags>();
  add_name_flag(*command, &flags->name);
  command->add_flag("--all", flags->all, "every virtual cluster of this machine");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Works after a crash too: it goes by what the kernel has, not by what was written down.\n\n"
      "Example:\n  weft cluster down --name four\n  weft cluster down --all");
  command->callback([=] {
    flags->named = command->count("--name") > 0;
    *chosen = [flags] { return down(*flags); };
  });
}

}  // namespace weft::cli::cluster
