// Two virtual hosts for a test, ranks started on them, and what must be so when the ranks have ended: nothing is left.
// Needs root, ip, tc, mpirun and OpenSSL; says which where it is skipped.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {

using Words = std::vector<std::string>;

class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override;
  // Takes the hosts down: no process may be left on them, no listening socket, and afterwards nothing at all.
  void TearDown() override;

  // A launch of `weft run` on each host, ranks_per_host of this program's ranks (host_ranks.h) each.
  //   machines     on a host with a name, process numbers and /dev/shm of its own, as on a machine
  //   namespaces   in its network namespace alone: /dev/shm and process numbers are shared
  enum class Apart { machines, namespaces };
  Running launch(int host, int ranks_per_host, const Words& part, Apart apart = Apart::machines) const;
  std::vector<Running> launch_both(int ranks_per_host, const Words& part, Apart apart = Apart::machines) const;
  // All ranks by mpirun.
  Running mpirun(int ranks_per_host, const Words& part) const;

  std::string host(int index) const;  // its name
  std::vector<pid_t> processes_on(int host) const;
  Words listening_on(int host) const;  // addresses, as the kernel writes them: 0100007F
  nlohmann::json counters() const;     // of `weft cluster list`: an object a host

  // What a rank has left (host_ranks.h); waits for it, and fails the test where it does not come.
  std::string note(const std::string& name, double seconds = 20) const;
  bool has_note(const std::string& name) const;
  void leave_note(const std::string& name) const;

  std::string name_, folder_;
  nlohmann::json hosts_;  // as `weft cluster up` says
};

bool wait_until(double seconds, const std::function<bool()>& condition);

}  // namespace weft::testing
