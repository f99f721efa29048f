#include "weft/virtual/remove.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/virtual/hosts.h"
#include "weft/virtual/quota.h"

namespace weft::virtual_hosts {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kPause{5};

using Identity = std::pair<dev_t, ino_t>;  // of a namespace, however it is named

Identity identity(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? Identity{status.st_dev, status.st_ino} : Identity{};
}

// All but this process itself: nobody takes hosts down from one of them.
std::set<pid_t> processes_on(const std::vector<std::string>& namespaces, const std::vector<std::string>& quotas) {
  std::set<Identity> theirs;
  for (const std::string& name : namespaces) theirs.insert(identity(namespace_path(name)));
  theirs.erase(Identity{});
  std::set<pid_t> found;
  for (const std::string& name : quotas)
    for (const pid_t pid : processes_under_quota(name)) found.insert(pid);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && theirs.contains(identity(entry.path() / "ns/net"))) found.insert(pid);
  }
  found.erase(getpid());
  found.erase(0);
  return found;
}

int end_processes(const std::vector<std::string>& namespaces, const std::vector<std::string>& quotas) {
  std::set<pid_t> all;
  for (const auto begin = Clock::now();;) {
    const auto left = processes_on(namespaces, quotas);
    if (left.empty()) return int_size(all);
    if (Clock::now() - begin > kPatience)
      fail(Code::io, "process {} on a virtual host does not end on SIGKILL; try again later", *left.begin());
    for (const pid_t pid : left) kill(pid, SIGKILL), all.insert(pid);
    std::this_thread::sleep_for(kPause);
  }
}

// A namespace's file is a mount on an empty file; where `ip netns add` was killed half-way it may be the file alone.
void remove_namespace(const std::string& name) {
  const std::string path = namespace_path(name);
  while (umount2(path.c_str(), MNT_DETACH) == 0) {
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) fail(Code::io, "cannot remove {}: {}", path, std::strerror(errno));
}

void remove_quota_soon(const std::string& name) {
  for (const auto begin = Clock::now(); !remove_quota(name);) {
    if (Clock::now() - begin > kPatience) fail(Code::io, "cannot remove the cgroup {}: {}", name, std::strerror(errno));
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

Removed remove_virtual_hosts(const std::string& name) {
  const auto namespaces = find_namespaces(name);
  auto quotas = find_quotas();
  std::erase_if(quotas, [&](const std::string& quota) { return hosts_of(quota) != name; });
  Removed removed{.namespaces = int_size(namespaces), .quotas = int_size(quotas)};
  removed.processes = end_processes(namespaces, quotas);
  for (const std::string& one : namespaces) remove_namespace(one);
  for (const std::string& one : quotas) remove_quota_soon(one);
  std::error_code none;
  const auto files = fs::remove_all(hosts_folder(name), none);
  removed.anything = !namespaces.empty() || !quotas.empty() || (files != 0 && files != static_cast<std::uintmax_t>(-1));
  return removed;
}

}  // namespace weft::virtual_hosts
