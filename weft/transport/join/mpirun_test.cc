// Ranks as mpirun starts them: processes that know their rank, their number and their job, and nothing else.
// mpirun itself is not needed here; the test mpirun.bench and example 10 run under it.
#include "weft/transport/join/mpirun.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "weft/base/refusal_test.h"
#include "weft/transport/join/pmix_job.h"
#include "weft/transport/local/process_ranks_test.h"
#include "weft/transport/local/shm.h"

namespace weft::transport_test {
namespace {

using namespace std::chrono_literals;
using Mpirun = ProcessRanks;

std::vector<pid_t> start_job(int size, const std::string& body) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < size; ++rank) pids.push_back(start_mpirun_rank(rank, size, body));
  return pids;
}

TEST_F(Mpirun, RanksFindEachOtherThoughRankZeroComesLast) {
  std::vector<pid_t> pids;
  for (int rank = 3; rank > 0; --rank) pids.push_back(start_mpirun_rank(rank, 4, "share_segments"));
  std::this_thread::sleep_for(100ms);
  pids.push_back(start_mpirun_rank(0, 4, "share_segments"));
  for (const pid_t pid : pids) EXPECT_EQ(exit_code_of(pid), 0) << note("error0");
}

TEST_F(Mpirun, KilledPeerIsNamedByAll) {
  const auto pids = start_job(4, "wait_for_the_victim");
  ASSERT_EQ(pid_note("victim"), pids[2]);
  kill(pids[2], SIGKILL);
  EXPECT_EQ(exit_code_of(pids[2]), 128 + SIGKILL);
  for (const int rank : {0, 1, 3}) EXPECT_EQ(exit_code_of(pids[rank]), 1);
}

TEST_F(Mpirun, KilledRankZeroIsNamedThoughItServesTheOthers) {
  const auto pids = start_job(3, "barriers_for_ever");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(pid_note("up" + std::to_string(rank)), pids[rank]);
  kill(pids[0], SIGKILL);
  for (const int rank : {1, 2}) {
    EXPECT_EQ(exit_code_of(pids[rank]), 1);
    EXPECT_EQ(note("seen" + std::to_string(rank)).substr(0, 2), "0 ") << note("seen" + std::to_string(rank));
  }
  EXPECT_EQ(exit_code_of(pids[0]), 128 + SIGKILL);
}

TEST_F(Mpirun, RankZeroThatLeavesEarlyIsNamed) {
  const auto pids = start_job(3, "leave_early_in_zero");
  EXPECT_EQ(exit_code_of(pids[0]), 0);
  for (const int rank : {1, 2}) EXPECT_EQ(exit_code_of(pids[rank]), 1);
  EXPECT_NE(note("error1").find("rank 0"), std::string::npos) << note("error1");
}

TEST_F(Mpirun, RankThatNeverComesIsNamedAtTheDeadline) {
  setenv("WEFT_WAIT_S", "0.5", 1);
  for (const int absent : {2, 0}) {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < 3; ++rank)
      if (rank != absent) pids.push_back(start_mpirun_rank(rank, 3, "share_segments"));
    for (const pid_t pid : pids) EXPECT_EQ(exit_code_of(pid), 1);
    const std::string said = note("error1");
    EXPECT_NE(said.find(fmt::format("for rank {}", absent)), std::string::npos) << said;
    std::filesystem::remove(folder_ + "/error1");
  }
  unsetenv("WEFT_WAIT_S");
}

TEST_F(Mpirun, RankThatDiesBeforeItAttachesIsNamed) {
  const auto pids = start_job(3, "die_before_attaching_in_one");
  EXPECT_EQ(exit_code_of(pids[1]), 5);
  for (const int rank : {0, 2}) EXPECT_EQ(exit_code_of(pids[rank]), 1);
  EXPECT_NE(note("error0").find("rank 1"), std::string::npos) << note("error0");
  // Rank 0 stays for a moment to tell latecomers; one that comes later still sees only that rank 0 is gone.
  const std::string said = note("error2");
  EXPECT_TRUE(said.find("ended before it had joined") != said.npos || said.find("rank 0 hung up") != said.npos) << said;
}

TEST_F(Mpirun, SecondAttachIsRefused) {
  const auto pids = start_job(2, "attach_twice");
  // The first to be refused ends, and its peer may still be in its own first attach: then that sees a failed rank (1).
  int refused = 0;
  for (const pid_t pid : pids) {
    const int code = exit_code_of(pid);
    EXPECT_NE(code, 0);
    refused += code == 2;
  }
  EXPECT_GE(refused, 1);
  EXPECT_NE((note("error0") + note("error1")).find("call World::init once"), std::string::npos) << note("error0");
}

TEST_F(Mpirun, SecondProcessOfARankIsRefused) {
  const std::vector<pid_t> twins = {start_mpirun_rank(1, 2, "outlive_a_twin"),
                                    start_mpirun_rank(1, 2, "outlive_a_twin")};
  EXPECT_EQ(exit_code_of(start_mpirun_rank(0, 2, "outlive_a_twin")), 0);
  const int codes[] = {exit_code_of(twins[0]), exit_code_of(twins[1])};
  EXPECT_EQ(std::min(codes[0], codes[1]), 0);
  EXPECT_EQ(std::max(codes[0], codes[1]), 2);
  EXPECT_NE(note("error1").find("another process has joined as rank 1 already"), std::string::npos) << note("error1");
}

TEST_F(Mpirun, RanksDieWithTheirParent) {
  const pid_t parent = start_launcher("mpirun_of_three");
  for (int rank = 0; rank < 3; ++rank) EXPECT_GT(pid_note("up" + std::to_string(rank)), 0);
  kill(parent, SIGKILL);
  EXPECT_EQ(exit_code_of(parent), 128 + SIGKILL);
  EXPECT_TRUE(all_gone_within(5s));
}

TEST_F(Mpirun, SeveralHostsAndBadEnvironmentsAreRefused) {
  const auto refused = [](int rank, int size, const char* here) {
    for (const auto& [name, value] : mpirun_environment(rank, size)) setenv(name.c_str(), value.c_str(), 1);
    setenv(kMpiLocalSizeEnv, here, 1);
    std::string said = refusal([] { join_launch(); });
    for (const auto& [name, value] : mpirun_environment(rank, size)) unsetenv(name.c_str());
    return said;
  };
  // What would tell it of the ranks on other hosts is not there: PMIx in this build, or its server.
  const std::string alone = refused(0, 4, "2");
  EXPECT_NE(alone.find(PmixJob::available() ? "PMIx cannot reach the launcher of this rank"
                                            : "2 of the 4 ranks of this mpirun job are on this host"),
            std::string::npos)
      << alone;
  EXPECT_NE(refused(5, 4, "4").find("OMPI_COMM_WORLD_RANK=\"5\" is not a number from 0 to 3"), std::string::npos);
  EXPECT_NE(refused(0, 4, "four").find("OMPI_COMM_WORLD_LOCAL_SIZE=\"four\""), std::string::npos);
  EXPECT_FALSE(launched());
}

}  // namespace
}  // namespace weft::transport_test
