// CPU quotas of virtual hosts: one cgroup per host, of version 1 (cpu.cfs_quota_us) or 2 (cpu.max), whichever the
// machine has. The quota is dealt out in short periods, so that a host behaves as a slower machine rather than as one
// that stands still for a twentieth of a second at a time.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::virtual_hosts {

// Why this machine can have no quotas, as the end of a sentence; empty where it can.
std::string no_quotas_because();

void make_quota(const std::string& name, double cpus);  // throws io naming file and reason
void join_quota(const std::string& name);               // this process and its children to come; nothing if none
std::vector<pid_t> processes_under_quota(const std::string& name);
bool remove_quota(const std::string& name);  // false while something is in it; true if there is none
std::vector<std::string> find_quotas();      // names of all cgroups that begin with weft-

}  // namespace weft::virtual_hosts
