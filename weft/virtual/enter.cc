#include "weft/virtual/enter.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/os/argv.h"
#include "weft/base/os/fd.h"
#include "weft/virtual/hosts.h"
#include "weft/virtual/quota.h"

namespace weft::virtual_hosts {
namespace {

volatile sig_atomic_t passed_on_to = 0;

void pass_on(int signal) {
  if (passed_on_to > 0) kill(passed_on_to, signal);
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGINT, SIG_IGN);
}

void default_signals() {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) std::signal(signal, SIG_DFL);
}

void check(bool good, const std::string& host, const char* what) {
  if (!good) fail(Code::io, "cannot enter host {}: {}: {}", host, what, std::strerror(errno));
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Network, quota, core and name; children get process numbers of their own.
void leave_machine(const Entry& entry) {
  join_quota(entry.host);
  const Fd there(open(namespace_path(entry.host).c_str(), O_RDONLY | O_CLOEXEC));
  check(static_cast<bool>(there) && setns(there.get(), CLONE_NEWNET) == 0, entry.host, "its network namespace");
  if (entry.core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(*entry.core, &cores);
    check(sched_setaffinity(0, sizeof cores, &cores) == 0, entry.host, "its core");
  }
  check(unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID) == 0, entry.host, "unshare");
  check(sethostname(entry.host.data(), entry.host.size()) == 0, entry.host, "sethostname");
}

// The kernel's files as the host has them: /proc with its processes, /sys with its device and the machine's cgroups
// kept, and an empty /dev/shm, where MPI and UCX put their files, which is gone with the last process.
void mount_files(const std::string& host) {
  check(mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0, host, "mount /");
  const Fd cgroups(open_tree(AT_FDCWD, "/sys/fs/cgroup", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  check(mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0, host, "mount /sys");
  if (cgroups) move_mount(cgroups.get(), "", AT_FDCWD, "/sys/fs/cgroup", MOVE_MOUNT_F_EMPTY_PATH);
  check(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, host, "mount /proc");
  check(mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0, host, "mount /dev/shm");
}

[[noreturn]] void exec_program(const std::vector<std::string>& program) {
  default_signals();
  std::vector<std::string> strings = program;
  const std::vector<char*> argv = argv_of(strings);
  execvp(argv[0], argv.data());
  fmt::print(stderr, "weft: cannot start \"{}\": {}\n", program[0], std::strerror(errno));
  _exit(127);
}

// The first process of the host: starts the program, takes in orphans, and ends with the program, upon which the kernel
// ends all others.
[[noreturn]] void be_first_process(const Entry& entry, const std::vector<std::string>& program) {
  int code = 1;
  try {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mount_files(entry.host);
    const pid_t child = fork();
    check(child >= 0, entry.host, "fork");
    if (child == 0) exec_program(program);
    passed_on_to = child;
    for (int status = 0;;) {
      const pid_t ended = waitpid(-1, &status, 0);
      if (ended < 0 && errno != EINTR) break;
      if (ended != child) continue;
      code = exit_code_of(status);
      break;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft: {}\n", error.what());
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

int run_on_host(const Entry& entry, const std::vector<std::string>& program) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  leave_machine(entry);
  handle_signals();
  std::fflush(nullptr);
  const pid_t first = fork();
  check(first >= 0, entry.host, "fork");
  if (first == 0) be_first_process(entry, program);
  passed_on_to = first;
  int status = 0;
  while (waitpid(first, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_code_of(status);
}

}  // namespace weft::virtual_hosts
