// Virtual clusters: links and quotas are what was asked for, clusters are apart, and nothing stays behind, whatever
// died when. Needs root, ip, tc and mpirun; says so where it is skipped. The network is that of the hosts made here
// alone.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"

#include "tests/cli/runs.h"
#include "tests/hosts/virtual_host_programs.h"

namespace weft::testing {
namespace {

// LeakSanitizer cannot stop the threads of a process in a PID namespace, where the programs of virtual hosts run.
constexpr const char* kNoLeaks = "ASAN_OPTIONS=detect_leaks=0";

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

std::string this_program() { return fs::read_symlink("/proc/self/exe"); }

bool in_path(const char* name) {
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/"})
    if (access((folder + std::string(name)).c_str(), X_OK) == 0) return true;
  return false;
}

// Files and folders of the kernel, and ours, that carry the name.
Words remains(const std::string& name) {
  Words found;
  for (const char* folder : {"/run/netns", "/run/weft", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu",
                             "/sys/fs/cgroup/unified", "/sys/class/net"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().filename().string().find(name) != std::string::npos) found.push_back(entry.path());
  }
  return found;
}

// Processes with the word in their command line, but for this one.
int processes_with(const std::string& word) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid() || !alive(pid)) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    count += line.find(word) != std::string::npos;
  }
  return count;
}

template <typename Condition>
bool within(double seconds, Condition condition) {
  for (const auto begin = Clock::now(); !condition();) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// The lines of JSON among what ranks print; mpirun says other things too.
std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{")) found.push_back(Json::parse(line, nullptr, false));
  return found;
}

class VirtualCluster : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "virtual hosts need root";
    for (const char* program : {"ip", "tc", "mpirun"})
      if (!in_path(program)) GTEST_SKIP() << "virtual hosts need " << program << "; packages iproute2, openmpi-bin";
    const Ended trial = weft(Words{"cluster", "up", "--hosts", "1", "--name", name_, "--cpus", "0.5"});
    if (trial.code != 0) GTEST_SKIP() << "this machine lets root make no virtual hosts: " << trial.err;
    down(name_);
  }
  void TearDown() override {
    for (const std::string& name : {name_, other_})
      if (!remains(name).empty()) down(name);
  }

  static void down(const std::string& name) {
    const Ended ended = weft(Words{"cluster", "down", "--name", name});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(remains(name), Words{});
  }
  static Json up(const std::string& name, Words words) {
    words.insert(words.begin(), {"cluster", "up", "--json", "--name", name});
    const Ended ended = weft(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return Json::parse(ended.out, nullptr, false);
  }
  // What ranks print, and last what `weft cluster run --json` does.
  static std::vector<Json> run(const std::string& name, int ranks, Words program) {
    Words words{"cluster", "run", "--env", kNoLeaks, "--json", "--name", name, "-n", std::to_string(ranks), "--"};
    words.insert(words.end(), program.begin(), program.end());
    const Ended ended = weft(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json_lines(ended.out);
  }

  const std::string name_ = fmt::format("test-{}", getpid()), other_ = fmt::format("other-{}", getpid());
};

TEST_F(VirtualCluster, LinksAndQuotasAreWhatWasAskedFor) {
  constexpr double kRate = 100e6 / 8, kPayload = 1448.0 / 1514, kBytes = 3e6;
  const Json made = up(name_, {"--hosts", "2", "--rate", "100mbit", "--cpus", "0.3"});
  ASSERT_EQ(made["hosts"].size(), 2u);
  for (const char* key : {"name", "address", "device", "namespace", "rate", "cpus"})
    EXPECT_TRUE(made["hosts"][0].contains(key)) << key;
  EXPECT_EQ(made["hosts"][1]["rate"], kRate);
  double rate = 0, cores = 0;
  for (int attempt = 0; attempt < 3 && rate < 0.85 * kRate * kPayload; ++attempt) {  // others may hold the cores
    const auto lines = run(name_, 2, {this_program(), "stream", made["hosts"][0]["address"], "3000000"});
    ASSERT_EQ(lines.size(), 2u);
    rate = lines[0]["bytes_per_s"];
    EXPECT_LT(rate, 1.05 * kRate);  // whatever the noise, a link is not faster than it is
    for (const auto& [host, key] : {std::pair{1, "tx_bytes"}, {0, "rx_bytes"}}) {
      EXPECT_GE(lines[1]["hosts"][host][key], kBytes);
      EXPECT_LT(lines[1]["hosts"][host][key], 1.1 * kBytes);  // headers, and mpirun's own
    }
  }
  EXPECT_GT(rate, 0.85 * kRate * kPayload);
  for (int attempt = 0; attempt < 3 && cores < 0.22; ++attempt) {  // as little as there is beside four others
    const auto lines = run(name_, 2, {this_program(), "burn", "0.5"});
    ASSERT_EQ(lines.size(), 3u);
    cores = std::min(lines[0]["cores"].get<double>(), lines[1]["cores"].get<double>());
    EXPECT_LT(std::max(lines[0]["cores"].get<double>(), lines[1]["cores"].get<double>()), 0.38);
  }
  EXPECT_GT(cores, 0.22);
  const Json listed = Json::parse(weft(Words{"cluster", "list", "--json", "--name", name_}).out);
  EXPECT_GE(listed["hosts"][1]["tx_bytes"], kBytes);
  down(name_);
}

TEST_F(VirtualCluster, RanksAreOnHostsOfTheirOwn) {
  const Json made = up(name_, {"--rate", "none"});
  const std::string show =
      "echo $OMPI_COMM_WORLD_RANK $(hostname) $(ip -o -4 addr show dev $WEFT_INTERFACE | grep -o 'inet [0-9.]*') "
      "$(ls /sys/class/net | tr '\\n' ' ') secret=$NOT_FOR_RANKS $(grep -c num_hosts $WEFT_CLUSTER)";
  setenv("NOT_FOR_RANKS", "told", 1);
  const Ended shown =
      weft(Words{"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "4", "--", "sh", "-c", show});
  EXPECT_EQ(shown.code, 0) << shown.err;
  for (int rank = 0; rank < 4; ++rank) {
    const Json& host = made["hosts"][rank / 2];
    const std::string expected = fmt::format("{} {} inet {} eth0 lo secret= 1\n", rank, host["name"].get<std::string>(),
                                             host["address"].get<std::string>());
    EXPECT_NE(shown.out.find(expected), std::string::npos) << expected << "in\n" << shown.out;
  }
  const Ended failed =
      weft(Words{"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "2", "--", "sh", "-c", "exit 2"});
  EXPECT_EQ(failed.code, 2) << failed.err;
  down(name_);
  EXPECT_EQ(weft(Words{"cluster", "down", "--name", name_}).code, 0) << "again: nothing to do";
}

#ifdef WEFT_PLAIN_MPI
// UCX and vader know several ways through shared memory; none of them may lead from one virtual host to another.
TEST_F(VirtualCluster, MpiGoesThroughTheLinks) {
  constexpr double kBytes =
      5 * 1024 * 512 * 4 / 2.0;  // five runs of the example, half of the product to the other rank
  up(name_, {"--rate", "1gbit"});
  for (const char* layer : {"pml=ucx,ob1", "pml=ob1"}) {
    const Ended ended = weft(Words{"cluster", "run", "--env", kNoLeaks, "--json", "--name", name_, "-n", "2", "--mca",
                                   layer, "--env", "OPENBLAS_NUM_THREADS=1", "--", WEFT_PLAIN_MPI});
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.out.find("ok 2 ranks"), std::string::npos) << ended.out;
    for (const Json& host : json_lines(ended.out).at(0)["hosts"]) EXPECT_GE(host["tx_bytes"], kBytes) << layer;
  }
}
#endif

// Stages on hosts of their own learn what they learn beside each other, and what crosses goes over the link.
TEST_F(VirtualCluster, TrainingInStagesHasTheLossesOfLocalRanks) {
  constexpr int kSteps = 3, kValue = 4 * 16 * 32 * 4;  // bytes of a batch's value, or gradient
  const std::string model = std::string(WEFT_SOURCE) + "/models/weft-16";
  const Json config = {{"model", {{"hidden", 32}, {"layers", 4}, {"heads", 4}, {"mlp", 64}, {"sequence", 16}}},
                       {"data", {{"text", model + "/prompt.txt"}, {"tokenizer", model}}},
                       {"training", {{"steps", kSteps}, {"batch", 4}, {"micro_batches", 4}, {"lr", 0.003}}},
                       {"mesh", {{"stages", 2}}},
                       {"schedule", "eager_1f1b"},
                       {"out", ""}};
  const ScratchFolder folder;
  const std::string file = folder.write("train.json", config.dump());
  const Ended local = weft(Words{"train", "--config", file, "--json"});
  ASSERT_EQ(local.code, 0) << local.err;
  up(name_, {"--rate", "50mbit"});
  const auto lines = run(name_, 2, {WEFT_BINARY, "train", "--config", file, "--json"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["loss"], json_lines(local.out).at(0)["loss"]);
  EXPECT_EQ(lines[0]["loss"].size(), static_cast<std::size_t>(kSteps));
  for (const Json& host : lines[1]["hosts"]) EXPECT_GE(host["tx_bytes"], kSteps * kValue);
}

TEST_F(VirtualCluster, SaysWhatIsMissing) {
  up(name_, {});
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const Ended lost = weft(Words{"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "2", "--", "true"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(lost.code, 2);
  EXPECT_NE(lost.err.find("install the Debian package openmpi-bin"), std::string::npos) << lost.err;
  for (const Words& words :
       {Words{"-n", "3", "--", "true"}, {"-n", "2", "--", "./none-such"}, {"-n", "0", "--", "true"}}) {
    Words all{"cluster", "run", "--env", kNoLeaks, "--name", name_};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = weft(all);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

TEST_F(VirtualCluster, ClustersSideBySideDoNotSeeEachOther) {
  const Json one = up(name_, {"--hosts", "2"}), two = up(other_, {"--hosts", "2"});
  EXPECT_NE(one["hosts"][0]["address"], two["hosts"][0]["address"]);
  EXPECT_EQ(run(name_, 1, {this_program(), "reach", one["hosts"][1]["address"]})[0]["reached"], true);
  EXPECT_EQ(run(name_, 1, {this_program(), "reach", two["hosts"][0]["address"]})[0]["reached"], false);
  EXPECT_EQ(run(other_, 1, {this_program(), "reach", one["hosts"][0]["address"]})[0]["reached"], false);
  down(name_);
  EXPECT_EQ(run(other_, 1, {this_program(), "reach", two["hosts"][1]["address"]})[0]["reached"], true);
}

TEST_F(VirtualCluster, KilledRunLeavesNothing) {
  up(name_, {"--cpus", "0.5"});
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const std::string nap = fmt::format("77.{}{}", getpid(), signal);
    const Running running =
        start_weft({"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "2", "--", "sleep", nap});
    ASSERT_TRUE(within(10, [&] { return processes_with("sleep" + std::string(1, '\0') + nap) >= 2 + 4; }));
    kill(running.pid, signal);
    EXPECT_EQ(wait_for(running).code, signal == SIGKILL ? 128 + SIGKILL : 1);
    EXPECT_TRUE(within(2, [&] { return processes_with(nap) == 0; })) << "signal " << signal;
  }
  const std::string nap = fmt::format("78.{}", getpid());
  const Running running =
      start_weft({"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "2", "--", "sleep", nap});
  ASSERT_TRUE(within(10, [&] { return processes_with("sleep" + std::string(1, '\0') + nap) >= 2 + 4; }));
  down(name_);
  EXPECT_NE(wait_for(running).code, 0);
  EXPECT_EQ(processes_with(nap), 0);
}

TEST_F(VirtualCluster, HalfMadeClusterIsTakenDown) {
  const Running making = start_weft({"cluster", "up", "--hosts", "24", "--name", name_, "--cpus", "0.05"});
  ASSERT_TRUE(within(5, [&] { return fs::exists(fmt::format("/run/netns/weft-{}-switch", name_)); }));
  kill(making.pid, SIGKILL);
  EXPECT_EQ(wait_for(making).code, 128 + SIGKILL);
  EXPECT_FALSE(remains(name_).empty());
  const Ended again = weft(Words{"cluster", "up", "--name", name_});
  EXPECT_EQ(again.code, 2) << again.err;
  const Ended used = weft(Words{"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "1", "--", "true"});
  EXPECT_EQ(used.code, 2);
  EXPECT_NE(used.err.find("not whole"), std::string::npos) << used.err;
  down(name_);

  const Running stopped = start_weft({"cluster", "up", "--hosts", "24", "--name", name_});
  ASSERT_TRUE(within(5, [&] { return fs::exists(fmt::format("/run/netns/weft-{}-switch", name_)); }));
  kill(stopped.pid, SIGINT);
  const Ended interrupted = wait_for(stopped);
  EXPECT_EQ(interrupted.code, 1) << interrupted.err;
  EXPECT_NE(interrupted.err.find("interrupted"), std::string::npos);
  EXPECT_EQ(remains(name_), Words{});

  up(name_, {});
  fs::remove_all(fmt::format("/run/weft/{}", name_));
  EXPECT_EQ(weft(Words{"cluster", "run", "--env", kNoLeaks, "--name", name_, "-n", "1", "--", "true"}).code, 2);
  down(name_);
}

TEST(VirtualClusterWords, WithoutRootIsOneSentence) {
  if (geteuid() == 0) {  // of the process that this becomes; its program may lie where only root may look
    if (access(WEFT_BINARY, X_OK) != 0) GTEST_SKIP() << WEFT_BINARY << " is not there";
    const std::string command = fmt::format("setpriv --reuid 65534 --clear-groups {} cluster up 2>&1", WEFT_BINARY);
    std::FILE* pipe = popen(command.c_str(), "r");
    char text[1024] = "";
    const std::size_t size = fread(text, 1, sizeof text - 1, pipe);
    const int status = pclose(pipe);
    if (WEXITSTATUS(status) >= 126) GTEST_SKIP() << "user nobody may not run " << WEFT_BINARY << ": " << text;
    EXPECT_EQ(WEXITSTATUS(status), 2) << text;
    EXPECT_NE(std::string(text, size).find("needs root"), std::string::npos) << text;
    return;
  }
  const Ended ended = weft("cluster up");
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("needs root"), std::string::npos) << ended.err;
}

TEST(VirtualClusterWords, BadInputIsOneSentence) {
  for (const char* words :
       {"up --hosts 0", "up --hosts 65", "up --rate fast", "up --rate 1bit", "up --cpus 0.001", "up --name a/b",
        "up --hosts 64 --pin --name ..", "down --name -x", "down --all --name a", "list --name none-such"}) {
    const Ended ended = weft(std::string("cluster ") + words);
    EXPECT_EQ(ended.code, 2) << words << ": " << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
  for (const char* command : {"up", "run", "down", "list"}) {
    const Ended help = weft(fmt::format("cluster {} --help", command));
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find(fmt::format("Example:\n  weft cluster {}", command)), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("--json"), std::string::npos) << help.out;
  }
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  if (weft::testing::is_host_program(argc, argv)) return weft::testing::run_host_program(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
