// A rank killed, stopped or late in mid-run: every other rank says so in time, by name, and nothing is left behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/transport/join/launch.h"
#include "weft/weft.h"

#include "tests/child_main.h"

namespace weft::testing {
namespace {

using Clock = std::chrono::steady_clock;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::string text_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// A rank that reduces for ever; what ends it is written to a file, with the time.
int child(const std::string& folder) {
  World world = World::init();
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  Op op = world.compile(gemm({.m = 256, .n = 256, .k = 64}), all_reduce(mesh, "tp"));
  const std::vector<float> x(256 * 64, 1.0f), w(64 * 256, 1.0f);
  try {
    for (int run = 0;; ++run) {
      op.run(x.data(), w.data());
      op.output();
      if (run == 3) std::ofstream(fmt::format("{}/pid{}", folder, world.rank())) << getpid() << std::endl;
    }
  } catch (const Error& e) {
    std::ofstream(fmt::format("{}/error{}", folder, world.rank()))
        << fmt::format("{:.6f} {} {}", now(), e.rank(), e.what());
    throw;
  }
}

struct Outcome {
  LaunchResult result;
  double signalled = 0;             // when
  std::vector<std::string> errors;  // per rank, empty where it wrote none
  std::vector<pid_t> pids;
};

// Starts ranks, sends `signal` to rank `victim` once all are at work, and waits for the end.
Outcome hurt(int num_ranks, int victim, int signal, const std::string& deadline) {
  const std::string folder = fmt::format("{}/weft_faults_{}_{}", ::testing::TempDir(), getpid(), signal);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  Outcome out;
  std::thread launcher([&] {
    out.result = launch({num_ranks, {"/proc/self/exe", "--child", folder}, {{"WEFT_DEADLINE_S", deadline}}});
  });
  for (int r = 0; r < num_ranks; ++r) {
    const double give_up = now() + 60;
    std::string pid;
    while ((pid = text_of(fmt::format("{}/pid{}", folder, r))).find('\n') == std::string::npos && now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    out.pids.push_back(std::atoi(pid.c_str()));
  }
  out.signalled = now();
  if (out.pids[victim] > 0) kill(out.pids[victim], signal);
  launcher.join();
  for (int r = 0; r < num_ranks; ++r) out.errors.push_back(text_of(fmt::format("{}/error{}", folder, r)));
  std::filesystem::remove_all(folder);
  return out;
}

void expect_named(const Outcome& out, int victim, double within) {
  double last = 0;
  for (std::size_t r = 0; r < out.errors.size(); ++r) {
    if (static_cast<int>(r) == victim) continue;
    ASSERT_FALSE(out.errors[r].empty()) << "rank " << r << " said nothing";
    double at = 0;
    int blamed = -1;
    std::istringstream(out.errors[r]) >> at >> blamed;
    EXPECT_EQ(blamed, victim) << out.errors[r];
    EXPECT_NE(out.errors[r].find(fmt::format("rank {}", victim)), std::string::npos) << out.errors[r];
    EXPECT_LE(at - out.signalled, within) << out.errors[r];
    last = std::max(last, at - out.signalled);
  }
  fmt::print("measured rank {} of {} hurt: all others said so within {:.3f} s (limit {} s)\n", victim,
             out.errors.size(), last, within);
  EXPECT_EQ(out.result.exit_code(), 1);
  for (const pid_t pid : out.pids) EXPECT_NE(kill(pid, 0), 0) << "process " << pid << " is still there";
}

TEST(Faults, AKilledRankIsNamedByEveryOtherWithinTwoSeconds) {
  for (const int victim : {0, 2}) expect_named(hurt(4, victim, SIGKILL, "10"), victim, 2.0);
}

TEST(Faults, AStoppedRankIsReportedAsSilentAfterTheDeadline) {
  const Outcome out = hurt(3, 1, SIGSTOP, "1");
  expect_named(out, 1, 4.0);
  for (const std::size_t r : {0u, 2u}) EXPECT_NE(out.errors[r].find("silent"), std::string::npos) << out.errors[r];
}

// What a local world of two ranks says when its patience ends.
std::string said_past_deadline(const std::function<void(World&)>& body) {
  setenv("WEFT_DEADLINE_S", "0.2", 1);
  setenv("WEFT_WAIT_S", "0.4", 1);
  std::string said;
  try {
    World::local(2, body);
  } catch (const Error& e) {
    said = e.what();
    EXPECT_EQ(e.code(), Code::deadline);
  }
  unsetenv("WEFT_DEADLINE_S");
  unsetenv("WEFT_WAIT_S");
  return said;
}

TEST(Faults, AWaitPastItsDeadlineNamesRankTilePeerSeenAndExpected) {
  const std::string said = said_past_deadline([](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    SpaceOptions options;
    options.route = Route::ring;
    Op op = world.compile(copy({.rows = 8, .cols = 8}), reduce_scatter(mesh, "tp", options));
    const std::vector<float> x(64, 1.0f);
    if (world.rank() == 0) {
      op.run(x.data());  // rank 1 never comes
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
  });
  for (const char* part :
       {"rank 0 waited 0.", "full[0] from rank 1", "tile 0 [0:4, 0:8]", "saw 0 of 1 updates", "last reported step"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_EQ(said.find("same order"), std::string::npos) << said;
}

TEST(Faults, OpsStartedInDifferentOrdersAreAskedAbout) {
  const std::string said = said_past_deadline([](World& world) {
    const Mesh mesh = world.mesh({{"tp", 2}});
    Op first = world.compile(copy({.rows = 8, .cols = 8}), all_gather(mesh, "tp"));
    Op second = world.compile(copy({.rows = 8, .cols = 8}), all_gather(mesh, "tp"));
    const std::vector<float> x(64, 1.0f);
    Op& mine = world.rank() == 0 ? first : second;
    mine.run(x.data());  // the other rank runs the other op, and has not opened this one
    mine.output();
  });
  EXPECT_NE(said.find("do all ranks start their ops in the same order?"), std::string::npos) << said;
}

TEST(Faults, ARankThatThrowsStopsTheOthersWithItsReason) {
  try {
    World::local(3, [](World& world) {
      const Mesh mesh = world.mesh({{"tp", 3}});
      Op op = world.compile(copy({.rows = 9, .cols = 8}), all_reduce(mesh, "tp"));
      if (world.rank() == 2) bad_input("no such token: 17");
      const std::vector<float> x(72, 1.0f);
      op.run(x.data());
      op.output();
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "no such token: 17");
  }
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  using namespace weft::testing;
  return test_main(argc, argv, [](const ChildWords& words) { return child(words.at(0)); });
}
