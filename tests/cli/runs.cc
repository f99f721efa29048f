#include "tests/cli/runs.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

extern char** environ;

namespace weft::testing {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// State and parent of a process, from /proc/PID/stat; the name there may hold blanks and brackets.
bool stat_of(pid_t pid, char* state, pid_t* parent) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && std::sscanf(text.c_str() + end + 1, " %c %d", state, parent) == 2;
}

}  // namespace

Running start_weft(const std::vector<std::string>& words) {
  std::vector<std::string> all{WEFT_BINARY};
  all.insert(all.end(), words.begin(), words.end());
  return start_program(all);
}

Running start_program(const std::vector<std::string>& words) {
  static std::atomic<int> number{0};
  Running running;
  const std::string base =
      ::testing::TempDir() + "/weft_cli_" + std::to_string(getpid()) + "_" + std::to_string(number++);
  running.out = base + ".out";
  running.err = base + ".err";
  std::vector<std::string> strings = words;
  std::vector<char*> argv;
  for (std::string& word : strings) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, running.out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, running.err.c_str(), flags, 0600);
  EXPECT_EQ(posix_spawnp(&running.pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return running;
}

Ended wait_for(const Running& running) {
  int status = 0;
  EXPECT_EQ(waitpid(running.pid, &status, 0), running.pid);
  Ended ended;
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.out = read_file(running.out);
  ended.err = read_file(running.err);
  std::filesystem::remove(running.out);
  std::filesystem::remove(running.err);
  return ended;
}

Ended weft(const std::vector<std::string>& words) { return wait_for(start_weft(words)); }

Ended weft(const std::string& words) {
  std::istringstream stream(words);
  return weft(std::vector<std::string>{std::istream_iterator<std::string>(stream), {}});
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t candidate = std::atoi(entry.path().filename().c_str());
    char state = 0;
    pid_t parent = 0;
    if (candidate > 0 && stat_of(candidate, &state, &parent) && parent == pid) children.push_back(candidate);
  }
  return children;
}

bool alive(pid_t pid) {
  char state = 0;
  pid_t parent = 0;
  return stat_of(pid, &state, &parent) && state != 'Z' && state != 'X';
}

}  // namespace weft::testing
