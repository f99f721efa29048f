#include "weft/virtual/quota.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft::virtual_hosts {
namespace {

namespace fs = std::filesystem;

constexpr double kMinQuotaUs = 1000;  // the kernel takes no less
// A clock tick. Small messages of hosts that are all busy show no difference between 4, 10, 20 and 100 ms (a 1 KB
// all-reduce of 4 hosts with half a core each: medians 66 to 75 us); a host that computes alone stands still for less.
constexpr double kMinPeriodUs = 4000;

enum class Version { none, v1, v2 };

struct Hierarchy {
  Version version = Version::none;
  std::string root;
};

bool holds_word(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string one; file >> one;)
    if (one == word) return true;
  return false;
}

const Hierarchy& hierarchy() {
  static const Hierarchy found = [] {
    for (const char* root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
      if (fs::exists(std::string(root) + "/cgroup.procs")) return Hierarchy{Version::v1, root};
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
      if (holds_word(std::string(root) + "/cgroup.controllers", "cpu")) return Hierarchy{Version::v2, root};
    return Hierarchy{};
  }();
  return found;
}

std::string folder_of(const std::string& name) { return hierarchy().root + "/" + name; }

// One write() a value, as the kernel wants it.
void write_value(const std::string& path, const std::string& value) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  bool good = file != nullptr && std::fputs(value.c_str(), file) >= 0;
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (!good)
    fail(Code::io, "cannot write \"{}\" to {}: {}; without --cpus no quota is needed", value, path,
         std::strerror(errno));
}

}  // namespace

std::string no_quotas_because() {
  const Hierarchy& found = hierarchy();
  if (found.version == Version::none) return "no cgroup with a cpu controller is mounted under /sys/fs/cgroup";
  if (access(found.root.c_str(), W_OK) != 0) return fmt::format("{} cannot be written", found.root);
  return {};
}

void make_quota(const std::string& name, double cpus) {
  const std::string folder = folder_of(name);
  if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    fail(Code::io, "cannot make {}: {}; without --cpus no quota is needed", folder, std::strerror(errno));
  const double period = std::max(kMinPeriodUs, std::ceil(kMinQuotaUs / cpus));
  const double quota = std::round(period * cpus);
  if (hierarchy().version == Version::v1) {
    write_value(folder + "/cpu.cfs_period_us", fmt::format("{:.0f}", period));
    write_value(folder + "/cpu.cfs_quota_us", fmt::format("{:.0f}", quota));
    return;
  }
  if (!fs::exists(folder + "/cpu.max")) write_value(hierarchy().root + "/cgroup.subtree_control", "+cpu");
  write_value(folder + "/cpu.max", fmt::format("{:.0f} {:.0f}", quota, period));
}

void join_quota(const std::string& name) {
  if (hierarchy().version == Version::none || !fs::exists(folder_of(name))) return;
  write_value(folder_of(name) + "/cgroup.procs", std::to_string(getpid()));
}

std::vector<pid_t> processes_under_quota(const std::string& name) {
  std::vector<pid_t> processes;
  std::ifstream file(folder_of(name) + "/cgroup.procs");
  for (pid_t pid = 0; file >> pid;) processes.push_back(pid);
  return processes;
}

bool remove_quota(const std::string& name) {
  return hierarchy().version == Version::none || rmdir(folder_of(name).c_str()) == 0 || errno == ENOENT;
}

std::vector<std::string> find_quotas() {
  std::vector<std::string> names;
  std::error_code none;
  if (hierarchy().version == Version::none) return names;
  for (const auto& entry : fs::directory_iterator(hierarchy().root, none))
    if (const std::string name = entry.path().filename(); name.starts_with("weft-")) names.push_back(name);
  return names;
}

}  // namespace weft::virtual_hosts
