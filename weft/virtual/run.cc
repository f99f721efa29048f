#include "weft/virtual/run.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/os/argv.h"

namespace weft::virtual_hosts {
namespace {

// Waits for the child with SIGCHLD, SIGINT and SIGTERM blocked. On the terminal's SIGINT mpirun needs a moment to end
// its ranks. The child takes all hosts' processes with it when it is killed.
RunEnd wait_for(pid_t child, const sigset_t& awaited) {
  using Steady = std::chrono::steady_clock;
  RunEnd end;
  constexpr auto kNever = Steady::time_point::max();
  auto ask = kNever, kill_at = kNever;
  for (int status = 0;;) {
    const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int signal = sigtimedwait(&awaited, nullptr, &pause);
    if (waitpid(child, &status, WNOHANG) == child) {
      end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return end;
    }
    const auto now = Steady::now();
    if (signal == SIGINT || signal == SIGTERM) {
      if (end.interrupted) kill(child, SIGKILL);
      end.interrupted = true;
      if (kill_at == kNever)
        ask = now + std::chrono::seconds(signal == SIGINT ? 1 : 0), kill_at = now + std::chrono::seconds(3);
    }
    if (now >= ask) kill(child, SIGTERM), ask = kNever;
    if (now >= kill_at) kill(child, SIGKILL);
  }
}

}  // namespace

RunEnd run_mpirun(const VirtualHosts& all, const std::vector<std::string>& mpirun, std::vector<std::string> variables) {
  std::vector<std::string> words{"weft", "cluster", "enter", "--name", all.name, "--host", all.hosts[0].name, "--"};
  words.insert(words.end(), mpirun.begin(), mpirun.end());
  sigset_t awaited, before;
  sigemptyset(&awaited);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&awaited, signal);
  sigprocmask(SIG_BLOCK, &awaited, &before);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int error =
      posix_spawn(&child, "/proc/self/exe", nullptr, &attributes, argv_of(words).data(), argv_of(variables).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) fail(Code::io, "cannot start this program again: {}", std::strerror(error));
  const RunEnd end = wait_for(child, awaited);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return end;
}

}  // namespace weft::virtual_hosts
