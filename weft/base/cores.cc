#include "weft/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

double ratio(const std::string& quota, const std::string& period) {
  const double numerator = std::atof(quota.c_str());  // "max" and "-1": none
  const double denominator = std::atof(period.c_str());
  return numerator > 0 && denominator > 0 ? numerator / denominator : kNoQuota;
}

double quota_of(const std::string& folder) {
  if (const auto both = first_line(folder + "/cpu.max")) {
    const std::size_t space = both->find(' ');
    return space == std::string::npos ? kNoQuota : ratio(both->substr(0, space), both->substr(space + 1));
  }
  const auto quota = first_line(folder + "/cpu.cfs_quota_us");
  const auto period = first_line(folder + "/cpu.cfs_period_us");
  return quota && period ? ratio(*quota, *period) : kNoQuota;
}

// A container often sees its own group as the root of the mount, under a name it does not know: the mount itself is
// looked at too, and folders that are not there say nothing.
double least_quota(const std::string& mount, std::string path) {
  double least = quota_of(mount);
  for (; path.size() > 1; path.resize(path.rfind('/'))) least = std::min(least, quota_of(mount + path));
  return least;
}

bool names_cpu(std::string_view controllers) {
  return ("," + std::string(controllers) + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

double cpu_quota(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  double least = kNoQuota;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines as 4:cpu,cpuacct:/path, or 0::/path for version 2
  for (std::string line; std::getline(groups, line);) {
    const std::size_t name = line.find(':');
    const std::size_t path = line.find(':', name + 1);
    if (name == std::string::npos || path == std::string::npos) continue;
    const std::string controllers = line.substr(name + 1, path - name - 1);
    std::vector<std::string> folders;
    if (controllers.empty()) folders = {mounts, mounts + "/unified"};
    if (names_cpu(controllers)) folders = {mounts + "/" + controllers, mounts + "/cpu"};
    for (const std::string& folder : folders) least = std::min(least, least_quota(folder, line.substr(path + 1)));
  }
  return least;
}

std::vector<int> own_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

double usable_cores() {
  cpu_set_t cores;
  const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  const double count = known ? CPU_COUNT(&cores) : std::max(1U, std::thread::hardware_concurrency());
  return std::max(0.01, std::min(count, cpu_quota()));
}

bool pin_to_core(int index) {
  const std::vector<int> cores = own_cores();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(num(cores[at(index) % cores.size()]), &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

}  // namespace weft
