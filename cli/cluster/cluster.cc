// `weft cluster`: virtual hosts with shaped links on one machine, to run on what programs will meet on many.
#include "cli/cluster/cluster.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/virtual/enter.h"

namespace weft::cli::cluster {
namespace {

struct EnterFlags {
  std::string name, host;
  std::vector<std::string> program;
};

int enter(const EnterFlags& flags) {
  Entry entry{.host = flags.host, .core = {}};
  for (const VirtualHost& host : load_virtual_hosts(flags.name).hosts)
    if (host.name == flags.host) entry.core = host.core;
  return run_on_host(entry, flags.program);
}

}  // namespace

void add_name_flag(CLI::App& command, std::string* name) {
  *name = kDefaultCluster;
  command.add_option("--name", *name, fmt::format("the cluster ({})", kDefaultCluster))->type_name("NAME");
}

std::string model_path(const std::string& set) { return hosts_folder(set) + "/model.json"; }

std::string hosts_table(const VirtualHosts& all) {
  std::vector<std::vector<std::string>> rows{{"host", "address", "each direction", "cpu", "sent", "received"}};
  for (const VirtualHost& host : all.hosts) {
    std::string cpu = host.core ? fmt::format("core {}", *host.core) : "";
    if (host.cpus) cpu += fmt::format("{}{} cores", cpu.empty() ? "" : ", ", *host.cpus);
    const auto bytes = [](const auto& count) { return count ? format_bytes(*count) : std::string("?"); };
    rows.push_back({host.name, host.address, host.rate ? fmt::format("{:.6g} Mbit/s", *host.rate * 8e-6) : "not shaped",
                    cpu.empty() ? "all" : cpu, bytes(host.sent), bytes(host.received)});
  }
  return draw::aligned(rows);
}

void add_cluster_enter(CLI::App& cluster, Run* chosen) {
  auto* command = cluster.add_subcommand("enter", "run a program on one host");
  auto flags = std::make_shared<EnterFlags>();
  command->group("");  // hidden
  command->add_option("--name", flags->name)->required();
  command->add_option("--host", flags->host)->required();
  command->add_option("program", flags->program)->required();
  command->callback([=] { *chosen = [flags] { return enter(*flags); }; });
}

}  // namespace weft::cli::cluster

namespace weft::cli {

void add_cluster(CLI::App& app, Run* run) {
  using namespace cluster;
  auto* command = app.add_subcommand("cluster", "virtual hosts with shaped links on this machine: up, run, list, down");
  command->require_subcommand(1);
  add_cluster_up(*command, run);
  add_cluster_run(*command, run);
  add_cluster_list(*command, run);
  add_cluster_down(*command, run);
  add_cluster_enter(*command, run);
  command->footer(
      "Each takes --json and has its own --help. All but list need root.\n\n"
      "Example:\n  weft cluster up --hosts 2 --rate 1gbit --pin\n"
      "  weft cluster run -n 2 -- weft bench gemm-rs --m 2048 --n 2048 --k 128\n  weft cluster down");
}

}  // namespace weft::cli
