#include "weft/virtual/mpirun.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/os/new_file.h"

namespace weft::virtual_hosts {
namespace {

// For the agent, which may run long after and elsewhere: a path, not /proc/self/exe.
std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool begins_with_one_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto one) { return name.starts_with(one); });
}

// Whether ranks take turns on cores: then a rank that waits must give its core up.
bool outnumber_cores(const VirtualHosts& all, const MpirunOptions& options) {
  const int ranks = options.num_hosts * options.ranks_per_host;
  const VirtualHost& host = all.hosts.front();
  if (host.core && options.ranks_per_host > 1) return true;
  if (host.cpus && *host.cpus < options.ranks_per_host) return true;
  return ranks > static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

bool reaches_ranks(std::string_view name) {
  return begins_with_one_of(name, {"WEFT_", "UCX_"}) || name == "OMP_NUM_THREADS";
}

bool reaches_mpirun(std::string_view name) {
  static constexpr std::array kNames{"PATH", "HOME", "USER", "SHELL", "LANG", "TZ", "TERM", "LD_LIBRARY_PATH"};
  return reaches_ranks(name) || begins_with_one_of(name, {"OMPI_MCA_", "LC_"}) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::vector<std::string> mpirun_words(const VirtualHosts& all, const MpirunOptions& options) {
  std::string hosts;
  for (int i = 0; i < options.num_hosts; ++i)
    hosts += fmt::format("{}{}:{}", i == 0 ? "" : ",", all.hosts[i].name, options.ranks_per_host);
  // Cores are the host's business (cgroup, pinning): bound by mpirun, the first rank of every host would be on core 0.
  std::vector<std::string> words{"mpirun",
                                 "--allow-run-as-root",
                                 "--bind-to",
                                 "none",
                                 "--oversubscribe",
                                 "--map-by",
                                 "slot",
                                 "--host",
                                 hosts,
                                 "-n",
                                 std::to_string(options.num_hosts * options.ranks_per_host)};
  const auto mca = [&](const std::string& name, const std::string& value) {
    words.insert(words.end(), {"--mca", name, value});
  };
  mca("plm_rsh_agent", agent_path(all.name));
  mca("orte_leave_session_attached", "1");  // a daemon in the background would outlive its host's first process
  mca("orte_tmpdir_base", "/dev/shm");      // the host's own, gone with it
  mca("oob_tcp_if_include", kHostDevice);
  mca("btl_tcp_if_include", kHostDevice);
  // UCX where this MPI has it: 1 KB all-reduced by two pinned hosts in 11 to 13 us, with ob1 in 14 to 15; 4 MB alike.
  // It would refuse plain TCP by itself. Between hosts it finds no shared memory (enter.h).
  mca("pml", "ucx,ob1");
  mca("btl", "self,vader,tcp");
  for (const char* allowed : {"opal_common_ucx_tls", "opal_common_ucx_devices"}) mca(allowed, "any");
  if (outnumber_cores(all, options)) mca("mpi_yield_when_idle", "1");
  for (const auto& [name, value] : options.mca) {
    for (std::size_t i = 0; i + 2 < words.size(); ++i)  // mpirun refuses a parameter that is given twice
      if (words[i] == "--mca" && words[i + 1] == name) words.erase(words.begin() + i, words.begin() + i + 3);
    mca(name, value);
  }
  for (const std::string& name : options.passed) words.insert(words.end(), {"-x", name});
  words.insert(words.end(), options.program.begin(), options.program.end());
  return words;
}

std::string agent_path(const std::string& set) { return hosts_folder(set) + "/agent"; }

void write_agent(const VirtualHosts& all) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string text = fmt::format(
      "#!/bin/sh\n# Stands in for ssh on this virtual cluster: HOST COMMAND...\nhost=$1; shift\n"
      "exec {} cluster enter --name {} --host \"$host\" -- /bin/sh -c \"$*\"\n",
      shell_quoted(self), all.name);
  write_file(agent_path(all.name), text, 0755);
}

}  // namespace weft::virtual_hosts
