// `weft cluster up`: makes the hosts, measures a link, and writes down what estimates need. All or nothing.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/base/units.h"
#include "weft/cluster/find_cluster.h"
#include "weft/virtual/lock.h"
#include "weft/virtual/make.h"
#include "weft/virtual/network.h"
#include "weft/virtual/quota.h"
#include "weft/virtual/tools.h"

#include "cli/cluster/cluster.h"
#include "cli/flag_values.h"

namespace weft::cli::cluster {
namespace {

constexpr int kMaxHosts = 64;
constexpr double kGbit = 125e6;  // bytes a second
constexpr double kPayload =
    1448.0 / 1514;  // of what the bucket counts: frames with the headers of TCP, IP and Ethernet

struct UpFlags {
  std::string name, rate = "250mbit";
  int hosts = 2;
  double cpus = 0;  // none
  bool pin = false, json = false;
};

volatile sig_atomic_t signalled = 0;
bool interrupted() { return signalled != 0; }

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { signalled = 1; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

std::optional<double> read_rate(const std::string& text) {
  if (text == "none") return std::nullopt;
  double rate = 0;
  try {
    rate = parse_rate(text);
  } catch (const Error& error) {
    bad_input("--rate: {}; or use none", error.what());
  }
  if (rate < 1e6 / 8 || rate > 100 * kGbit) bad_input("--rate is {}; use 1mbit to 100gbit, or none", text);
  return rate;
}

void check(const UpFlags& flags, std::size_t cores) {
  check_hosts_name(flags.name);
  if (flags.hosts < 1 || flags.hosts > kMaxHosts) bad_input("--hosts is {}; use 1 to {}", flags.hosts, kMaxHosts);
  if (flags.cpus != 0 && !(flags.cpus >= 0.01 && flags.cpus <= 1024))
    bad_input("--cpus is {}; use 0.01 to 1024 cores", flags.cpus);
  if (flags.pin && num(flags.hosts) > cores)
    bad_input("--pin needs a core a host: {} hosts, {} cores; use --cpus {:.2g}", flags.hosts, cores,
              static_cast<double>(cores) / flags.hosts);
  read_rate(flags.rate);
  require_root("making virtual hosts");
  require_program("ip", "iproute2");
  require_program("tc", "iproute2");
  if (const std::string why = no_quotas_because(); flags.cpus != 0 && !why.empty())
    bad_input("--cpus {} cannot be had: {}; use --pin, or neither", flags.cpus, why);
  const auto all = find_virtual_hosts();
  if (std::find(all.begin(), all.end(), flags.name) != all.end())
    bad_input("there is a cluster \"{}\" already; `weft cluster down --name {}`, or take another --name", flags.name,
              flags.name);
}

// Beyond this the machine's cores, not its links, set the time (measure.md: what TCP costs a byte).
void warn_where_false(const UpFlags& flags, std::optional<double> rate, std::size_t cores) {
  const bool pinned = flags.pin && flags.hosts <= 2 && rate && *rate <= kGbit;
  const bool shared =
      flags.cpus > 0 && flags.cpus * flags.hosts <= static_cast<double>(cores) && rate && *rate <= kGbit / 4;
  if (!pinned && !shared && flags.hosts > 1)
    fmt::print(stderr,
               "weft: warning: {} hosts at {} on {} cores{}: times will show cores that are shared, not links; 2 hosts "
               "with --pin are good up to 1gbit, more with --cpus ({:.2g} or less) up to 250mbit\n",
               flags.hosts, flags.rate, cores,
               flags.pin        ? ", pinned"
               : flags.cpus > 0 ? ", with quotas"
                                : "",
               static_cast<double>(cores) / flags.hosts);
}

VirtualHosts described(const UpFlags& flags, const std::vector<int>& cores) {
  VirtualHosts all{.name = flags.name};
  const std::string subnet = free_subnet();
  for (int i = 0; i < flags.hosts; ++i) {
    VirtualHost host{.name = host_name(flags.name, i), .address = fmt::format("{}.{}", subnet, i + 1)};
    host.rate = read_rate(flags.rate);
    if (flags.cpus > 0) host.cpus = flags.cpus;
    if (flags.pin) host.core = cores[at(i)];
    all.hosts.push_back(std::move(host));
  }
  return all;
}

// This machine's rates and these links; a rank a host (`run` divides the cores among more). Where the link is shaped
// the model has the rate that it lets TCP carry, not the one just seen: somebody else may have been on the cores.
void write_model(const VirtualHosts& hosts, const Link& link) {
  Cluster model = with_wire(find_cluster());
  model.name = "virtual cluster " + hosts.name;
  model.num_hosts = int_size(hosts.hosts);
  model.ranks_per_host = 1;
  model.network = link;
  if (const auto rate = hosts.hosts[0].rate) model.network.bytes_per_s = *rate * kPayload;
  model.fabric = Fabric::nic;
  write_file(model_path(hosts.name), to_json(model) + "\n");
}

void report(const UpFlags& flags, VirtualHosts& all, const Link& link) {
  if (const auto rate = all.hosts[0].rate; rate && all.hosts.size() > 1 && link.bytes_per_s < 0.9 * kPayload * *rate)
    fmt::print(stderr, "weft: warning: a TCP stream from host 0 to 1 carries {}, not {}: is the machine busy?\n",
               format_rate(link.bytes_per_s), format_rate(kPayload * *rate));
  for (VirtualHost& host : all.hosts) read_counters(host);
  if (flags.json) {
    nlohmann::ordered_json out{{"name", all.name}, {"hosts", nlohmann::ordered_json::array()}};
    for (const VirtualHost& host : all.hosts) out["hosts"].push_back(to_json(host));
    out["measured_rate"] = link.bytes_per_s;
    out["latency_us"] = link.latency_s * 1e6;
    out["model"] = model_path(all.name);
    fmt::print("{}", json_line(out));
    return;
  }
  fmt::print("{}", hosts_table(all));
  if (all.hosts.size() > 1)
    fmt::print("A TCP stream from host 0 to 1 carries {}; a byte takes {}.\n", format_rate(link.bytes_per_s),
               format_duration(link.latency_s));
}

int up(const UpFlags& flags) {
  const auto cores = own_cores();
  check(flags, cores.size());
  const HostsLock lock;
  check(flags, cores.size());  // somebody else may have been faster
  warn_where_false(flags, read_rate(flags.rate), cores.size());
  watch_signals();
  VirtualHosts all = described(flags, cores);
  Link link = find_cluster().local;  // of one host alone
  make_virtual_hosts(all, interrupted, [&] {
    if (all.hosts.size() > 1) {
      const SeenLink seen = measure_link(all.hosts[0], all.hosts[1]);
      link = {.bytes_per_s = seen.bytes_per_s, .latency_s = seen.latency_s};
    }
    write_model(all, link);
  });
  report(flags, all, link);
  return 0;
}

}  // namespace

void add_cluster_up(CLI::App& cluster, Run* chosen) {
  auto* command = cluster.add_subcommand("up", "make virtual hosts");
  auto flags = std::make_shared<UpFlags>();
  add_number(*command, "--hosts", &flags->hosts, "how many (2)")->type_name("H");
  command->add_option("--rate", flags->rate, "of each host's link, each direction: 50mbit to 1gbit; none (250mbit)")
      ->type_name("RATE");
  add_number(*command, "--cpus", &flags->cpus, "CPU quota of each host, in cores: 0.5; without it none")
      ->type_name("C");
  command->add_flag("--pin", flags->pin, "give each host a core of its own");
  add_name_flag(*command, &flags->name);
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "What is honest: two hosts pinned to a core each, up to 1gbit; more hosts with quotas that\n"
      "together are no more than the cores there are, up to 250mbit. Beyond that, times show how\n"
      "cores are shared rather than what links do, and `up` says so. Latency cannot be chosen: it\n"
      "is that of this machine's network stack, and is measured.\n\n"
      "Example:\n  weft cluster up --hosts 2 --rate 1gbit --pin\n"
      "  weft cluster up --hosts 4 --rate 250mbit --cpus 0.5 --name four");
  command->callback([=] { *chosen = [flags] { return up(*flags); }; });
}

}  // namespace weft::cli::cluster
