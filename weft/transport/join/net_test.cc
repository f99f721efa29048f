// Ranks on two hosts, as real processes that talk through 127.x.y.z: how they find each other, and how each kind of
// failure reaches all of them. That the hosts are two is only their word for it (WEFT_HOST); the tests of the virtual
// cluster have hosts with networks of their own.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "weft/base/refusal_test.h"
#include "weft/transport/join/net_handshake.h"
#include "weft/transport/join/net_join.h"
#include "weft/transport/join/pmix_job.h"
#include "weft/transport/local/process_ranks_test.h"
#include "weft/transport/local/shm.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft::transport_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr const char* kSecret = "a secret of the tests of several hosts";

// What a rank that failed to see the failure of another left: when, whom it blames, on which host, in which words.
struct Seen {
  std::int64_t at_ns = 0;
  int rank = -1;
  std::string host, words;
};

class Net : public ProcessRanks {
 protected:
  void SetUp() override {
    ProcessRanks::SetUp();
    if (!available(WireKind::tls)) GTEST_SKIP() << "this build has no OpenSSL (libssl-dev)";
  }
  void TearDown() override {
    ProcessRanks::TearDown();
    for (const char* name : {"WEFT_DEADLINE_S", "WEFT_WAIT_S"}) unsetenv(name);
  }

  // An address that no other test uses at the same time, though all have this machine: one for each process.
  static std::string rendezvous() {
    const int pid = getpid();
    return fmt::format("127.{}.{}.{}:20777", 1 + (pid >> 16 & 63), pid >> 8 & 255, std::max(1, pid & 255));
  }

  static Environment environment(int rank, int size, const std::string& body) {
    return {{kBodyEnv, body},
            {kRendezvousEnv, rendezvous()},
            {kSecretEnv, kSecret},
            {kRankEnv, std::to_string(rank)},
            {kSizeEnv, std::to_string(size)},
            {"WEFT_HOST", rank < 2 ? "a" : "b"}};
  }

  static pid_t start(int rank, const std::string& body, const Environment& more = {}) {
    Environment all = environment(rank, 4, body);
    all.insert(all.end(), more.begin(), more.end());
    return start_process(all);
  }

  static std::vector<pid_t> start_all(const std::string& body, const Environment& more = {}) {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < 4; ++rank) pids.push_back(start(rank, body, more));
    return pids;
  }

  void forget_notes() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry);
  }

  Seen seen(int rank) const {
    std::istringstream text(note("seen" + std::to_string(rank)));
    Seen seen;
    text >> seen.at_ns >> seen.rank >> seen.host;
    std::getline(text, seen.words);
    return seen;
  }

  // The others end with code 1, and have named the victim and its host within `limit` of the blow.
  void expect_all_blame(int victim, const std::vector<pid_t>& pids, std::int64_t blow_ns, double least_s,
                        double most_s) const {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(exit_code_of(pids[rank]), 1) << "rank " << rank;
      const Seen what = seen(rank);
      const double took = (what.at_ns - blow_ns) * 1e-9;
      EXPECT_EQ(what.rank, victim) << "rank " << rank << " said" << what.words;
      EXPECT_EQ(what.host, victim < 2 ? "a" : "b") << what.words;
      EXPECT_GE(took, least_s) << what.words;
      EXPECT_LT(took, most_s) << what.words;
      std::printf("rank %d knew after %.3f s:%s\n", rank, took, what.words.c_str());
    }
  }
};

std::int64_t test_clock_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

TEST_F(Net, RanksOfTwoHostsGatherAndAllocateThoughRankZeroComesLast) {
  std::vector<pid_t> pids;
  for (int rank = 3; rank > 0; --rank) pids.push_back(start(rank, "net_share"));
  std::this_thread::sleep_for(100ms);
  pids.push_back(start(0, "net_share"));
  for (const pid_t pid : pids) EXPECT_EQ(exit_code_of(pid), 0);
  for (int rank = 0; rank < 4; ++rank) EXPECT_FALSE(has_note("error" + std::to_string(rank))) << note("error0");
}

TEST_F(Net, HostsAreJoinedByUcxWhereTheNetworkIsTrusted) {
  if (!available(WireKind::ucx)) GTEST_SKIP() << "this build has no UCX (libucx-dev)";
  for (const pid_t pid : start_all("net_share", {{"WEFT_LINK", "ucx,trusted"}})) EXPECT_EQ(exit_code_of(pid), 0);
  if (has_rdma_device()) return;
  const auto pids = start_all("net_share", {{"WEFT_LINK", "ucx"}});
  int refused = 0;  // each would be, and who hears of another's end first says that
  for (const pid_t pid : pids) refused += exit_code_of(pid) == 2;
  EXPECT_GT(refused, 0);
  std::string said;
  for (int rank = 0; rank < 4; ++rank) said += note("error" + std::to_string(rank));
  EXPECT_NE(said.find("--link ucx,trusted where everybody on the network is trusted"), std::string::npos) << said;
}

TEST_F(Net, RanksThatAskForDifferentWiresAreRefused) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < 4; ++rank)
    pids.push_back(start(rank, "net_share", {{"WEFT_LINK", rank == 2 ? "ucx,trusted" : "tls"}}));
  for (const pid_t pid : pids) EXPECT_NE(exit_code_of(pid), 0);
  const std::string said = note("error0");
  EXPECT_NE(said.find("rank 0 (host a) asks for --link tls and rank 2 (host b) for --link ucx,trusted"),
            std::string::npos)
      << said;
}

TEST_F(Net, TooMuchMemoryOnOneHostIsRefusedOnAll) {
  for (const pid_t pid : start_all("net_refuse_memory")) EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_F(Net, KilledRankIsNamedOnAllHostsWithinTwoSeconds) {
  for (const int victim : {3, 0}) {
    const auto pids = start_all("net_wait", {{"WEFT_TEST_VICTIM", std::to_string(victim)}});
    ASSERT_EQ(pid_note("victim"), pids[victim]);
    std::this_thread::sleep_for(50ms);
    const auto blow = test_clock_ns();
    kill(pids[victim], SIGKILL);
    EXPECT_EQ(exit_code_of(pids[victim]), 128 + SIGKILL);
    expect_all_blame(victim, pids, blow, 0, 2);
    forget_notes();
  }
}

TEST_F(Net, StoppedRankIsNamedAtTheDeadlineAlsoInSetUpCalls) {
  setenv("WEFT_DEADLINE_S", "2", 1);
  for (const auto& [body, victim] : {std::pair("net_wait", 2), std::pair("net_wait_in_barrier", 0)}) {
    const auto pids = start_all(body, {{"WEFT_TEST_VICTIM", std::to_string(victim)}});
    ASSERT_EQ(pid_note("victim"), pids[victim]);
    const auto blow = test_clock_ns();
    kill(pids[victim], SIGSTOP);
    expect_all_blame(victim, pids, blow, 1.5, 8);
    kill(pids[victim], SIGKILL);
    EXPECT_EQ(exit_code_of(pids[victim]), 128 + SIGKILL);
    forget_notes();
  }
}

TEST_F(Net, LateButLivePeerIsWaitedFor) {
  setenv("WEFT_DEADLINE_S", "2", 1);
  setenv("WEFT_WAIT_S", "30", 1);
  for (const pid_t pid : start_all("net_late")) EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_F(Net, RankZeroMayBeDoneFirst) {
  for (const pid_t pid : start_all("net_leave_early_in_zero")) EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_F(Net, ErrorOfOneReachesAllHostsWithItsCause) {
  const auto pids = start_all("net_throw_in_three");
  EXPECT_EQ(exit_code_of(pids[3]), 2);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(exit_code_of(pids[rank]), 1);
    const std::string said = note("seen" + std::to_string(rank));
    EXPECT_NE(said.find("3 rank 3 (host b) failed: it ended with an exception"), std::string::npos) << said;
  }
}

TEST_F(Net, PeerWithoutTheSecretIsRefusedAndTheWorldGoesOn) {
  const pid_t stranger = start(2, "net_share", {{kSecretEnv, "another secret, long enough"}});
  std::vector<pid_t> pids = {start(0, "net_share")};
  EXPECT_EQ(exit_code_of(stranger), 2);
  const std::string said = note("error2");
  EXPECT_NE(said.find("refused rank 2: their secrets differ"), std::string::npos) << said;
  for (const int rank : {1, 2, 3}) pids.push_back(start(rank, "net_share"));
  for (const pid_t pid : pids) EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_F(Net, RankThatNeverComesIsNamedAtTheDeadlineWithWhoWasRefused) {
  setenv("WEFT_WAIT_S", "3", 1);
  std::vector<pid_t> pids;
  for (const int rank : {0, 1, 2}) pids.push_back(start(rank, "net_share"));
  EXPECT_EQ(exit_code_of(start(3, "net_share", {{kSecretEnv, "another secret, long enough"}})), 2);
  for (const pid_t pid : pids) EXPECT_EQ(exit_code_of(pid), 1);
  for (const int rank : {0, 1, 2}) {
    const std::string said = note("error" + std::to_string(rank));
    EXPECT_NE(said.find("rank 3 failed: it has not joined within 3.0 s"), std::string::npos) << said;
    EXPECT_NE(said.find("calling itself rank 3, was refused: it does not hold the secret"), std::string::npos) << said;
  }
}

TEST_F(Net, RankZeroThatNeverComesIsNamed) {
  setenv("WEFT_WAIT_S", "0.5", 1);
  EXPECT_EQ(exit_code_of(start(1, "net_share")), 1);
  EXPECT_NE(note("error1").find("rank 1 waited 0.5 s for rank 0 to listen at 127."), std::string::npos);
}

TEST_F(Net, SecondOfARankIsRefused) {
  const std::vector<pid_t> twins = {start(1, "net_share"), start(1, "net_share")};
  std::vector<pid_t> pids = {start(0, "net_share")};
  // Whichever comes second ends at once; the other waits for the ranks that are not there yet.
  int status = 0;
  pid_t ended = 0;
  for (const auto stop = Clock::now() + 20s; ended == 0 && Clock::now() < stop; std::this_thread::sleep_for(5ms))
    for (const pid_t twin : twins)
      if (ended == 0 && waitpid(twin, &status, WNOHANG) == twin) ended = twin;
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_NE(note("error1").find("it has a rank of this number already"), std::string::npos) << note("error1");
  pids.push_back(ended == twins[0] ? twins[1] : twins[0]);
  for (const int rank : {2, 3}) pids.push_back(start(rank, "net_share"));
  for (const pid_t pid : pids) EXPECT_EQ(exit_code_of(pid), 0);
}

TEST_F(Net, NothingListensBeyondTheNamedInterface) {
  for (const pid_t pid : start_all("net_listen")) EXPECT_EQ(exit_code_of(pid), 0) << note("error0");
}

// Two launchers, each with two ranks, as `weft run --rendezvous` on two hosts.
TEST_F(Net, RanksOfTwoLaunchersAreOneWorld) {
  const auto launcher = [](int first, const char* body) {
    return start_process({{kBodyEnv, "net_launcher"},
                          {kSecretEnv, kSecret},
                          {"WEFT_HOST", first == 0 ? "a" : "b"},
                          {"WEFT_TEST_FIRST", std::to_string(first)},
                          {"WEFT_TEST_VICTIM", "3"},
                          {"WEFT_TEST_BODY", body},
                          {"WEFT_TEST_RENDEZVOUS", rendezvous()}});
  };
  const std::vector<pid_t> share = {launcher(2, "net_share"), launcher(0, "net_share")};
  for (const pid_t pid : share) EXPECT_EQ(exit_code_of(pid), 0) << note("launched0") << note("launched2");
  forget_notes();
  const std::vector<pid_t> wait = {launcher(0, "net_wait"), launcher(2, "net_wait")};
  const pid_t victim = pid_note("victim");
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  for (const pid_t pid : wait) EXPECT_EQ(exit_code_of(pid), 1);
  for (const char* name : {"launched0", "launched2"}) EXPECT_EQ(note(name).substr(0, 2), "3 ") << note(name);
  EXPECT_NE(note("launched2").find("killed by signal 9"), std::string::npos) << note("launched2");
  for (const int rank : {0, 1, 2}) EXPECT_EQ(seen(rank).rank, 3) << seen(rank).words;
}

TEST_F(Net, RanksOfMpirunFindOtherHostsThroughPmix) {
  if (!PmixJob::available()) GTEST_SKIP() << "built without PMIx (libpmix-dev)";
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun (openmpi-bin)";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string log = folder_ + "/mpirun.log";
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 "
      "WEFT_INTERFACE=lo {}=net_share_and_exit timeout 50 mpirun --bind-to none --oversubscribe "
      "-n 2 -x WEFT_HOST=a '{}' : -n 2 -x WEFT_HOST=b '{}' > '{}' 2>&1",
      kBodyEnv, self, self, log);
  const int status = std::system(command.c_str());
  std::ifstream file(log);
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(WEXITSTATUS(status), 0) << said;
  EXPECT_TRUE(all_gone_within(5s));
}

TEST_F(Net, WhatCannotBeARendezvousIsRefused) {
  const auto refused = [](const Environment& change) {
    Environment all = environment(0, 4, "");
    all.insert(all.end(), change.begin(), change.end());
    for (const auto& [name, value] : all)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    std::string said = refusal([] { join_launch(); });
    for (const auto& [name, value] : all) unsetenv(name.c_str());
    return said;
  };
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_PRED2(contains, refused({{kSecretEnv, ""}}), "need a secret");
  EXPECT_PRED2(contains, refused({{kSecretEnv, "short"}}), "has 5 characters; use at least 16");
  EXPECT_PRED2(contains, refused({{kRendezvousEnv, "127.0.0.1"}}), "is not HOST:PORT");
  EXPECT_PRED2(contains, refused({{kRendezvousEnv, "127.0.0.1:70000"}}), "is not HOST:PORT");
  EXPECT_PRED2(contains, refused({{kSizeEnv, ""}}), "WEFT_SIZE is not");
  EXPECT_PRED2(contains, refused({{kRankEnv, "4"}}), "not a number from 0 to 3");
  const std::string path = folder_ + "/secret";
  std::ofstream(path) << kSecret << "\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  EXPECT_PRED2(contains, refused({{kSecretFileEnv, path}}), "chmod 600");
  EXPECT_PRED2(contains, refused({{kSecretFileEnv, folder_}}), "not a file");
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  setenv(kSecretFileEnv, path.c_str(), 1);
  EXPECT_EQ(secret_from_env(), kSecret);
  unsetenv(kSecretFileEnv);
  EXPECT_PRED2(contains, refused({{kRendezvousEnv, "0.0.0.0:20777"}}), "all interfaces");
}

}  // namespace
}  // namespace weft::transport_test
