#include "tests/hosts/virtual_hosts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/core.h>

#include "weft/transport/wire/wire_kind.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kPort = 5077;

bool in_path(const char* name) {
  for (const char* folder : {"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/"})
    if (access((folder + std::string(name)).c_str(), X_OK) == 0) return true;
  return false;
}

std::string this_program() { return fs::read_symlink("/proc/self/exe"); }

Words remains(const std::string& name) {
  Words found;
  for (const char* folder : {"/run/netns", "/run/weft", "/sys/fs/cgroup", "/sys/class/net"}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().filename().string().find(name) != std::string::npos) found.push_back(entry.path());
  }
  return found;
}

}  // namespace

bool wait_until(double seconds, const std::function<bool()>& condition) {
  for (const auto begin = Clock::now(); !condition();) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void TwoHosts::SetUp() {
  if (geteuid() != 0) GTEST_SKIP() << "virtual hosts need root";
  for (const char* program : {"ip", "tc", "mpirun"})
    if (!in_path(program)) GTEST_SKIP() << "virtual hosts need " << program << "; packages iproute2, openmpi-bin";
  if (!available(WireKind::tls)) GTEST_SKIP() << "this build has no OpenSSL (libssl-dev)";
  static int number = 0;
  name_ = fmt::format("hosts{}-{}", number++, getpid());
  const Ended up = weft(Words{"cluster", "up", "--json", "--name", name_, "--hosts", "2", "--rate", "1gbit"});
  if (up.code != 0) GTEST_SKIP() << "this machine lets root make no virtual hosts: " << up.err;
  hosts_ = Json::parse(up.out)["hosts"];
  folder_ = ::testing::TempDir() + "weft-" + name_;
  fs::create_directories(folder_);
  setenv("WEFT_SECRET", "a secret that only these ranks have", 1);
}

void TwoHosts::TearDown() {
  for (const char* name : {"WEFT_SECRET", "WEFT_DEADLINE_S", "WEFT_WAIT_S", "WEFT_LINK"}) unsetenv(name);
  if (hosts_.is_null()) return;
  for (int index = 0; index < 2; ++index) {
    EXPECT_TRUE(wait_until(3, [&] { return processes_on(index).empty(); })) << host(index) << " still runs something";
    EXPECT_EQ(listening_on(index), Words{}) << host(index);
  }
  const Ended down = weft(Words{"cluster", "down", "--json", "--name", name_});
  EXPECT_EQ(down.code, 0) << down.err;
  EXPECT_EQ(Json::parse(down.out, nullptr, false)["removed"][0]["processes"], 0) << down.out;
  EXPECT_EQ(remains(name_), Words{});
  fs::remove_all(folder_);
}

Running TwoHosts::launch(int index, int ranks_per_host, const Words& part, Apart apart) const {
  const std::string rendezvous = fmt::format("{}:{}", hosts_[0]["address"].get<std::string>(), kPort);
  Words words;
  if (apart == Apart::machines)
    words = {WEFT_BINARY, "cluster", "enter", "--name", name_, "--host", host(index), "--"};
  else
    words = {"ip", "netns", "exec", host(index)};
  words.insert(words.end(), {WEFT_BINARY, "run", "--json", "-n", std::to_string(ranks_per_host), "--rendezvous",
                             rendezvous, "--first-rank", std::to_string(index * ranks_per_host), "--world-size",
                             std::to_string(2 * ranks_per_host), "--", this_program(), part[0], folder_});
  words.insert(words.end(), part.begin() + 1, part.end());
  return start_program(words);
}

std::vector<Running> TwoHosts::launch_both(int ranks_per_host, const Words& part, Apart apart) const {
  std::vector<Running> both;
  for (int index = 0; index < 2; ++index) both.push_back(launch(index, ranks_per_host, part, apart));
  return both;
}

Running TwoHosts::mpirun(int ranks_per_host, const Words& part) const {
  Words words{"cluster", "run",          "--json", "--name", name_, "-n", std::to_string(2 * ranks_per_host),
              "--",      this_program(), part[0],  folder_};
  words.insert(words.end(), part.begin() + 1, part.end());
  return start_weft(words);
}

std::string TwoHosts::host(int index) const { return hosts_[index]["name"]; }

std::vector<pid_t> TwoHosts::processes_on(int index) const {
  struct stat there {};
  if (stat(("/run/netns/" + host(index)).c_str(), &there) != 0) return {};
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    struct stat its {};
    if (pid > 0 && stat((entry.path() / "ns/net").c_str(), &its) == 0 && its.st_ino == there.st_ino)
      found.push_back(pid);
  }
  return found;
}

Words TwoHosts::listening_on(int index) const {
  const std::string command = fmt::format("ip netns exec {} cat /proc/net/tcp /proc/net/tcp6 2>/dev/null", host(index));
  std::FILE* pipe = popen(command.c_str(), "r");
  Words found;
  for (char line[512]; std::fgets(line, sizeof line, pipe) != nullptr;) {
    std::istringstream words(line);
    std::string slot, local, remote, state;
    words >> slot >> local >> remote >> state;
    if (state == "0A") found.push_back(local.substr(0, local.find(':')));
  }
  pclose(pipe);
  return found;
}

Json TwoHosts::counters() const {
  return Json::parse(weft(Words{"cluster", "list", "--json", "--name", name_}).out)["hosts"];
}

std::string TwoHosts::note(const std::string& name, double seconds) const {
  EXPECT_TRUE(wait_until(seconds, [&] { return has_note(name); })) << "no rank has left " << name;
  std::ifstream file(folder_ + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool TwoHosts::has_note(const std::string& name) const { return fs::exists(folder_ + "/" + name); }

void TwoHosts::leave_note(const std::string& name) const { std::ofstream file(folder_ + "/" + name); }

}  // namespace weft::testing
