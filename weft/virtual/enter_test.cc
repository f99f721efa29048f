// Programs on a virtual host: what they see of the machine, and how they end. Each runs in a child of this process,
// which cannot come back from a host.
#include "weft/virtual/enter.h"

#include <fcntl.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "weft/virtual/made_hosts_test.h"

namespace weft::virtual_hosts {
namespace {

namespace fs = std::filesystem;

class OnAHost : public MadeHosts {
 protected:
  // Runs it on the host with its output in `text`; returns its exit code.
  int run(const std::string& script, std::string* text = nullptr) {
    const std::string path = ::testing::TempDir() + name_;
    const int code = in_child([&] {
      const int out = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(out, STDOUT_FILENO);
      return run_on_host({host_name(name_, 0), {}}, {"sh", "-c", script});
    });
    std::ifstream file(path);
    if (text != nullptr) *text = std::string(std::istreambuf_iterator<char>(file), {});
    fs::remove(path);
    return code;
  }
};

TEST_F(OnAHost, AProgramSeesItsHostAlone) {
  const VirtualHosts all = made(1);
  std::string seen;
  EXPECT_EQ(run("hostname; ls /sys/class/net | tr '\\n' ' '; ls /dev/shm | wc -l; ls /proc | grep -c '^[0-9]'", &seen),
            0);
  // Its first process, the shell, and what that starts.
  EXPECT_TRUE(seen.starts_with(all.hosts[0].name + "\neth0 lo 0\n")) << seen;
  EXPECT_LE(std::stoi(seen.substr(seen.rfind("0\n") + 2)), 6) << seen;
}

TEST_F(OnAHost, ItsExitCodeAndItsSignalComeBack) {
  made(1);
  EXPECT_EQ(run("exit 0"), 0);
  EXPECT_EQ(run("exit 3"), 3);
  EXPECT_EQ(run("kill -9 $$"), 128 + SIGKILL);
  EXPECT_EQ(run("exec no-such-program-anywhere 2>/dev/null"), 127);
}

TEST_F(OnAHost, WhatItLeavesBehindEndsWithIt) {
  made(1);
  std::string text;
  EXPECT_EQ(run("sleep 1234.5 & readlink /proc/self/ns/net; exit 0", &text), 0);
  const std::string net = text.substr(0, text.find('\n'));
  ASSERT_TRUE(net.starts_with("net:[")) << text;
  const auto anyone = [&] {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/proc", none))
      if (fs::read_symlink(entry.path() / "ns/net", none) == net) return true;
    return false;
  };
  for (int i = 0; i < 400 && anyone(); ++i) usleep(5000);
  EXPECT_FALSE(anyone()) << "a process of the host is still there";
}

TEST_F(OnAHost, FilesInItsSharedMemoryAreItsOwn) {
  made(1);
  std::string text;
  EXPECT_EQ(run(fmt::format("echo secret >/dev/shm/{}; cat /dev/shm/{}", name_, name_), &text), 0);
  EXPECT_EQ(text, "secret\n");
  EXPECT_FALSE(fs::exists("/dev/shm/" + name_));
  EXPECT_EQ(run("test -e /dev/shm/" + name_), 1) << "nor are they there the next time";
}

TEST_F(OnAHost, AHostThatIsNotThereIsRefused) {
  EXPECT_EQ(in_child([&] {
              try {
                run_on_host({host_name(name_, 5), {}}, {"true"});
              } catch (const Error& error) {
                return std::string(error.what()).find("cannot enter host " + host_name(name_, 5)) == 0 ? 42 : 43;
              }
              return 44;
            }),
            42);
}

}  // namespace
}  // namespace weft::virtual_hosts
