// Failures between hosts, each done for real to ranks in mid-run: every other rank fails in time and names the culprit
// and its host, nothing hangs, and nothing is left behind (TwoHosts::TearDown).
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "tests/hosts/host_ranks.h"
#include "tests/hosts/virtual_hosts.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr int kRanks = 4;
constexpr double kDeadline = 2;  // seconds
constexpr double kNotice = 2;    // to be told of a death

class HostFaults : public TwoHosts {
 protected:
  void SetUp() override {
    setenv("WEFT_DEADLINE_S", fmt::format("{}", kDeadline).c_str(), 1);
    TwoHosts::SetUp();
  }

  void await_work() const {
    for (int rank = 0; rank < kRanks; ++rank) note(fmt::format("works{}", rank));
  }
  Json error_of(int rank) const {
    const Json seen = Json::parse(note(fmt::format("error{}", rank), kDeadline + 8), nullptr, false);
    EXPECT_TRUE(seen.is_object()) << "rank " << rank;
    return seen;
  }
  // Rank `seer` blames one of `culprits`, on the right host, at least `least` and at most `most` seconds after `since`.
  void expect_blame(int seer, const std::vector<int>& culprits, double since, double least, double most) const {
    const Json seen = error_of(seer);
    if (!seen.is_object()) return;
    const int culprit = seen["rank"];
    EXPECT_NE(std::find(culprits.begin(), culprits.end(), culprit), culprits.end()) << "rank " << seer << ": " << seen;
    if (culprit < 0 || culprit >= kRanks) return;
    EXPECT_EQ(seen["host"], host(culprit / 2)) << seen;
    EXPECT_NE(seen["what"].get<std::string>().find(fmt::format("rank {} (host {})", culprit, host(culprit / 2))),
              std::string::npos)
        << seen;
    const double after = seen["at"].get<double>() - since;
    EXPECT_GE(after, least) << "rank " << seer << ": " << seen;
    EXPECT_LE(after, most) << "rank " << seer << ": " << seen;
  }
  // The launches end, and each one's last line names the culprit too.
  static void expect_last_lines(const std::vector<Running>& launches, int culprit, const std::string& host) {
    for (const Running& one : launches) {
      const Ended ended = wait_for(one);
      EXPECT_EQ(ended.code, 1) << ended.err;
      const Json report = Json::parse(ended.out, nullptr, false);
      EXPECT_EQ(report["first_failed"], culprit) << ended.out << ended.err;
      EXPECT_EQ(report["host"], host) << ended.out;
      const auto line = fmt::format("weft: rank {} of {} (host {}) failed: ", culprit, kRanks, host);
      EXPECT_NE(ended.err.find(line), std::string::npos) << ended.err;
    }
  }
  void signal_in_mid_run(int victim, int signal, double least, double most) const {
    const auto launches = launch_both(2, {"reduce", std::to_string(victim), std::to_string(signal)});
    await_work();
    leave_note("go");
    const double since = std::atof(note(fmt::format("signal{}", victim)).c_str());
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != victim) expect_blame(rank, {victim}, since, least, most);
    expect_last_lines(launches, victim, host(victim / 2));
  }
};

TEST_F(HostFaults, KilledRankIsNamedWithinTwoSeconds) { signal_in_mid_run(3, SIGKILL, 0, kNotice); }

// The others meet at rank 0.
TEST_F(HostFaults, KilledRankZeroIsNamedWithinTwoSeconds) { signal_in_mid_run(0, SIGKILL, 0, kNotice); }

TEST_F(HostFaults, StoppedRankIsNamedAtTheDeadline) {
  signal_in_mid_run(2, SIGSTOP, 0.8 * kDeadline, kDeadline + kNotice);
}

TEST_F(HostFaults, StoppedRankZeroIsNamedAtTheDeadline) {
  signal_in_mid_run(0, SIGSTOP, 0.8 * kDeadline, kDeadline + kNotice);
}

// mpirun ends all ranks of a job of which one was killed: those that are quick say why before.
TEST_F(HostFaults, KilledRankOfMpirunIsNamed) {
  const Running running = mpirun(2, {"reduce", "3", std::to_string(SIGKILL)});
  await_work();
  leave_note("go");
  const double since = std::atof(note("signal3").c_str());
  for (int rank = 0; rank < 3; ++rank) expect_blame(rank, {3}, since, 0, kNotice);
  EXPECT_NE(wait_for(running).code, 0);
}

TEST_F(HostFaults, LinkDownIsNamedAtTheDeadline) {
  const auto launches = launch_both(2, {"reduce", "-1", "0"});
  await_work();
  const double since = now_s();
  const Ended down = wait_for(start_program({"ip", "-n", host(1), "link", "set", "eth0", "down"}));
  ASSERT_EQ(down.code, 0) << down.err;
  for (const int rank : {0, 1}) expect_blame(rank, {2, 3}, since, 0.8 * kDeadline, kDeadline + kNotice);
  for (const int rank : {2, 3}) expect_blame(rank, {0, 1}, since, 0.8 * kDeadline, kDeadline + kNotice);
  for (const Running& one : launches) EXPECT_EQ(wait_for(one).code, 1);
}

TEST_F(HostFaults, PeerWithoutTheSecretIsRefusedAndTheWorldGoesOn) {
  setenv("WEFT_DEADLINE_S", "20", 1);
  const Running first = launch(0, 2, {"late", "0", "0"});
  ASSERT_TRUE(wait_until(10, [&] { return !listening_on(0).empty(); }));
  for (const char* secret : {"", "a secret of another world"}) {
    setenv("WEFT_SECRET", secret, 1);
    const Ended refused = wait_for(launch(1, 2, {"late", "0", "0"}));
    EXPECT_EQ(refused.code, *secret == '\0' ? 2 : 1) << refused.err;
    EXPECT_NE(refused.err.find("secret"), std::string::npos) << refused.err;
  }
  setenv("WEFT_SECRET", "a secret that only these ranks have", 1);
  const Running second = launch(1, 2, {"late", "0", "0"});
  for (const Running& one : {first, second}) {
    const Ended ended = wait_for(one);
    EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  }
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(has_note(fmt::format("done{}", rank)));
}

// Three seconds late to a run and 1.6 to a set-up call, with a deadline of one: each is said once by who waits.
TEST_F(HostFaults, LatePeerIsOnlyLogged) {
  setenv("WEFT_DEADLINE_S", "1", 1);
  for (const Running& one : launch_both(2, {"late", "3", "1.6"})) {
    const Ended ended = wait_for(one);
    EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  }
  int run_lines = 0, call_lines = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (!entry.path().filename().string().starts_with("log")) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      run_lines += line.find("late but alive") != std::string::npos;
      call_lines += line.find(fmt::format("for rank 3 (host {}), which is late", host(1))) != std::string::npos &&
                    line.find("set-up call") != std::string::npos;
    }
  }
  EXPECT_GE(run_lines, 1);
  EXPECT_LE(run_lines, 3);
  EXPECT_EQ(call_lines, 3);
}

TEST_F(HostFaults, RankThatNeverJoinsIsNamedAtOnce) {
  setenv("WEFT_DEADLINE_S", "20", 1);
  const double since = now_s();
  expect_last_lines(launch_both(2, {"absent"}), 3, host(1));
  EXPECT_LT(now_s() - since, 10);
}

TEST_F(HostFaults, KilledLauncherTakesItsRanksAlong) {
  const auto launches = launch_both(2, {"reduce", "-1", "0"});
  await_work();
  for (const int index : {0, 1})
    for (const std::string& address : listening_on(index)) EXPECT_NE(address, "00000000") << "listens to everyone";
  const double since = now_s();
  kill(launches[1].pid, SIGKILL);
  for (const int rank : {0, 1}) expect_blame(rank, {2, 3}, since, 0, kNotice);
  EXPECT_TRUE(wait_until(kNotice, [&] { return processes_on(1).empty(); }));
  EXPECT_EQ(wait_for(launches[1]).code, 128 + SIGKILL);
  EXPECT_EQ(wait_for(launches[0]).code, 1);
}

TEST_F(HostFaults, KilledMpirunLeavesNothing) {
  const Running running = mpirun(2, {"reduce", "-1", "0"});
  await_work();
  pid_t mpirun = -1;
  for (const pid_t pid : processes_on(0)) {
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)) >> std::ws, name);
    if (name == "mpirun" || name == "orterun") mpirun = pid;
  }
  ASSERT_GT(mpirun, 0);
  kill(mpirun, SIGKILL);
  EXPECT_NE(wait_for(running).code, 0);
  for (const int index : {0, 1}) EXPECT_TRUE(wait_until(5, [&] { return processes_on(index).empty(); })) << host(index);
}

}  // namespace
}  // namespace weft::testing
