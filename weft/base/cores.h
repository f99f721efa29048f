// How much computing this process may do at once: threads beyond that take turns.
#pragma once

#include <string>
#include <vector>

namespace weft {

// The cores of its affinity mask (taskset, mpirun --bind-to), or the CPU quota of its control group (a container, a
// virtual host) where that is less: 0.5 is half a core's time. At least a hundredth.
double usable_cores();

// The cores of the affinity mask, by number; {0} where the kernel does not tell.
std::vector<int> own_cores();

// Keeps this thread, and those that it starts from here on, on one core of own_cores(): the index-th, counted round.
// False where the kernel does not let it.
bool pin_to_core(int index);

// The quota alone, in cores, of the groups that `root`/proc/self/cgroup names and all those above them; versions 1
// (cpu.cfs_quota_us) and 2 (cpu.max) of control groups. Infinite where there is none.
double cpu_quota(const std::string& root = "");

}  // namespace weft
