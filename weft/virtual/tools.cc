#include "weft/virtual/tools.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/os/argv.h"
#include "weft/base/os/fd.h"

extern char** environ;

namespace weft::virtual_hosts {
namespace {

// A file in memory that a program reads from its start or writes to: no pipe to fill, so no deadlock.
Fd scratch_file(const std::string& text) {
  Fd file(memfd_create("weft-tool", MFD_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(Code::io, "cannot make a file in memory: {}", std::strerror(errno));
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string first_line(const Fd& file) {
  char text[512];
  const ssize_t size = pread(file.get(), text, sizeof text, 0);
  const std::string all(text, size > 0 ? num(size) : 0);
  return all.substr(0, all.find('\n'));
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path == nullptr ? "/usr/bin:/bin" : path) + ":/usr/sbin:/sbin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string candidate = folder + "/" + name; access(candidate.c_str(), X_OK) == 0) return candidate;
  return {};
}

void require_root(const std::string& what) {
  if (geteuid() != 0) bad_input("{} needs root, and this is user {}; use sudo", what, geteuid());
}

void require_program(const std::string& name, const std::string& package) {
  if (find_program(name).empty())
    bad_input("there is no \"{}\" on this machine; install the Debian package {}", name, package);
}

void run_tool(const std::vector<std::string>& words, const std::string& input) {
  const Fd in = scratch_file(input), said = scratch_file("");
  std::vector<std::string> strings = words;
  strings[0] = find_program(words[0]);
  const std::vector<char*> argv = argv_of(strings);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, said.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(Code::io, "cannot start \"{}\": {}", words[0], std::strerror(error));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(Code::io, "`{}` failed: {}", fmt::join(words, " "), first_line(said));
}

}  // namespace weft::virtual_hosts
