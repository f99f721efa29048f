// `weft cluster run`: a program's ranks on virtual hosts, started by mpirun on the first of them.
#include "weft/virtual/run.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/cluster/cluster.h"
#include "weft/virtual/mpirun.h"
#include "weft/virtual/network.h"
#include "weft/virtual/tools.h"

#include "cli/cluster/cluster.h"
#include "cli/flag_values.h"

extern char** environ;

namespace weft::cli::cluster {
namespace {

struct RunFlags {
  std::string name;
  int ranks = 0, ranks_per_host = 0;
  std::vector<std::string> mca, env, program;
  bool json = false;
};

MpirunOptions placed(const RunFlags& flags, int hosts) {
  if (flags.ranks < 1 || flags.ranks > 4096) bad_input("-n is {}; use 1 to 4096 ranks", flags.ranks);
  const int each = flags.ranks_per_host > 0 ? flags.ranks_per_host : std::max(1, flags.ranks / hosts);
  if (flags.ranks_per_host < 0) bad_input("--ranks-per-host is {}; use 1 or more", flags.ranks_per_host);
  if (flags.ranks % each != 0 || flags.ranks / each > hosts)
    bad_input(
        "{} ranks do not go onto {} hosts with {} on each; use a multiple of the hosts, or other --ranks-per-host",
        flags.ranks, hosts, each);
  MpirunOptions options{.ranks_per_host = each, .num_hosts = flags.ranks / each};
  options.program = flags.program;
  for (const std::string& one : flags.mca) {
    const std::size_t equal = one.find('=');
    if (equal == 0 || equal == std::string::npos) bad_input("--mca is \"{}\"; use NAME=VALUE, as in pml=ucx", one);
    options.mca.emplace_back(one.substr(0, equal), one.substr(equal + 1));
  }
  return options;
}

double cores_a_rank(const VirtualHost& host, const MpirunOptions& options) {
  const double machine = std::max(1u, std::thread::hardware_concurrency());
  double cores = std::min(1.0, machine / (options.num_hosts * options.ranks_per_host));
  if (host.core) cores = std::min(1.0, 1.0 / options.ranks_per_host);
  if (host.cpus) cores = std::min(cores, *host.cpus / options.ranks_per_host);
  return cores;
}

// The model that `auto` goes by in this run. A file for this run alone, gone when it goes out of scope.
class ModelFile {
 public:
  ModelFile(const VirtualHosts& all, const MpirunOptions& options)
      : path_(fmt::format("{}/model-{}.json", hosts_folder(all.name), getpid())) {
    Cluster model = with_cores(load_cluster(model_path(all.name)), cores_a_rank(all.hosts[0], options));
    model.num_hosts = options.num_hosts;
    model.ranks_per_host = options.ranks_per_host;
    write_file(path_, to_json(model) + "\n");
  }
  ~ModelFile() {
    std::error_code none;
    std::filesystem::remove(path_, none);
  }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// NAME=VALUE of all that mpirun gets. --env comes last and counts.
std::vector<std::string> environment(const RunFlags& flags, const ModelFile& model) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& variable) {
    std::erase_if(all, [&](const std::string& one) { return name_of(one) == name_of(variable); });
    all.push_back(variable);
  };
  add(fmt::format("UCX_NET_DEVICES={}", kHostDevice));
  for (char** one = environ; *one != nullptr; ++one)
    if (reaches_mpirun(name_of(*one))) add(*one);
  add(fmt::format("WEFT_INTERFACE={}", kHostDevice));
  add("WEFT_CLUSTER=" + model.path());
  for (const std::string& one : flags.env) {
    const char* value = std::getenv(one.c_str());
    if (one.find('=') != std::string::npos)
      add(one);
    else if (value != nullptr)
      add(one + "=" + value);
    else
      bad_input("--env {}: there is no such variable; use --env {}=VALUE", one, one);
  }
  return all;
}

// Hosts with the bytes of this run alone.
void report(const RunFlags& flags, const MpirunOptions& options, const VirtualHosts& before, VirtualHosts after,
            int code) {
  nlohmann::ordered_json out{{"name", before.name},
                             {"ranks", flags.ranks},
                             {"ranks_per_host", options.ranks_per_host},
                             {"exit_code", code},
                             {"hosts", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < after.hosts.size(); ++i) {
    VirtualHost& host = after.hosts[i];
    read_counters(host);
    host.sent = host.sent.value_or(0) - before.hosts[i].sent.value_or(0);
    host.received = host.received.value_or(0) - before.hosts[i].received.value_or(0);
    out["hosts"].push_back(to_json(host));
  }
  fmt::print("{}", json_line(out));
}

int run(const RunFlags& flags) {
  check_hosts_name(flags.name);
  require_root("running on virtual hosts");
  require_program("mpirun", "openmpi-bin");
  VirtualHosts all = load_virtual_hosts(flags.name);
  MpirunOptions options = placed(flags, int_size(all.hosts));
  if (find_program(flags.program[0]).empty())
    bad_input("there is no program \"{}\"; give its path, or a name that PATH has", flags.program[0]);
  write_agent(all);
  const ModelFile model(all, options);
  const auto variables = environment(flags, model);
  for (const std::string& one : variables)
    if (reaches_ranks(name_of(one)) || std::find_if(flags.env.begin(), flags.env.end(), [&](const std::string& asked) {
                                         return name_of(asked) == name_of(one);
                                       }) != flags.env.end())
      options.passed.push_back(name_of(one));
  for (VirtualHost& host : all.hosts) read_counters(host);
  std::fflush(nullptr);
  const RunEnd end = run_mpirun(all, mpirun_words(all, options), variables);
  const int code = end.interrupted ? 1 : end.code;
  if (flags.json) report(flags, options, all, all, code);
  if (end.interrupted) fmt::print(stderr, "weft: interrupted; all {} ranks have been stopped\n", flags.ranks);
  return code;
}

}  // namespace

void add_cluster_run(CLI::App& cluster, Run* chosen) {
  auto* command = cluster.add_subcommand("run", "start ranks of a program on virtual hosts, with mpirun");
  auto flags = std::make_shared<RunFlags>();
  add_number(*command, "-n,--ranks", &flags->ranks, "ranks in all, in blocks over the hosts")
      ->required()
      ->type_name("N");
  add_number(*command, "--ranks-per-host", &flags->ranks_per_host, "ranks on a host (as even as hosts allow)", 1)
      ->type_name("R");
  command->add_option("--mca", flags->mca, "a parameter of Open MPI, as in --mca pml=ucx; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--env", flags->env, "a variable that ranks shall see beside WEFT_*, UCX_* and OMP_NUM_THREADS")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  add_name_flag(*command, &flags->name);
  command->add_flag("--json", flags->json, "after the program's own output: how it ended and the bytes of each host");
  command->add_option("program", flags->program, "the program and its arguments, after --")
      ->required()
      ->type_name("PROG");
  command->footer(
      "Ranks find the device's name in WEFT_INTERFACE and the links' rates in WEFT_CLUSTER. The exit\n"
      "code is the program's.\n\n"
      "Example:\n  weft cluster run -n 8 -- weft bench gemm-rs --m 2048 --n 2048 --k 128\n"
      "  weft cluster run -n 4 --name four --mca pml=ucx --json -- ./my_mpi_program");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli::cluster
