// What the tests of process ranks share. The test program starts itself again: an object built before main()
// finds the name of a body in the environment, runs it as one rank and exits (process_ranks_test.cc). Ranks
// tell the test what they saw through their exit codes and through notes in a folder.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weft/transport/join/launch.h"

namespace weft::transport_test {

inline constexpr const char* kBodyEnv = "WEFT_TRANSPORT_TEST_CHILD";
inline constexpr const char* kFolderEnv = "WEFT_TRANSPORT_TEST_FOLDER";

// What ranks of several hosts run (net_ranks_test.cc), by name.
std::map<std::string, std::function<int()>> net_bodies();
// For bodies. A note is complete or not there.
void leave_note(const std::string& name, const std::string& text);
void expect(bool holds, const char* what);

using Environment = std::vector<std::pair<std::string, std::string>>;
// This program again, with these additions to the environment.
pid_t start_process(const Environment& environment);

// This program as `num_ranks` ranks that run `body`.
LaunchOptions ranks(int num_ranks, const std::string& body);
// The same, each behind a shell that does not exec it: the kernel ties only the shell to the launcher.
LaunchOptions scripts(int num_ranks, const std::string& body);

// The environment that mpirun gives to rank `rank` of `size`, the job named after this test.
Environment mpirun_environment(int rank, int size);
// This program as that rank of such a job, running `body`.
pid_t start_mpirun_rank(int rank, int size, const std::string& body);
int exit_code_of(pid_t pid);  // waits for it; 128 + signal where one ended it

// Gives each test a folder for notes and checks that it leaves no process and no memory behind.
class ProcessRanks : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // The note once it is there, or "" after 20 s.
  std::string note(const std::string& name) const;
  bool has_note(const std::string& name) const;
  pid_t pid_note(const std::string& name) const;

  // Other processes whose environment names this test's folder: its ranks, and nobody else's.
  int processes_left() const;
  // What the launcher, this process, still maps or holds open of the memory of ranks.
  static int memory_left();
  bool all_gone_within(std::chrono::nanoseconds time) const;
  // A launcher in a process of its own, to be interrupted or killed.
  static pid_t start_launcher(const char* body = "launcher");

  std::string folder_;
};

}  // namespace weft::transport_test
