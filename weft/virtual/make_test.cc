// A set of virtual hosts is made whole or not at all, is found by its name, and leaves nothing.
#include "weft/virtual/make.h"

#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "weft/base/refusal_test.h"
#include "weft/virtual/made_hosts_test.h"
#include "weft/virtual/quota.h"

namespace weft::virtual_hosts {
namespace {

namespace fs = std::filesystem;

std::string failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::io);
    return error.what();
  }
  return "did not throw";
}

TEST_F(MadeHosts, AreLoadedAsTheyWereAskedFor) {
  VirtualHosts all = hosts(2);
  all.hosts[0].rate = 12.5e6;
  all.hosts[1].core = 0;
  {
    const HostsLock lock;
    make_virtual_hosts(all, never);
  }
  EXPECT_TRUE(is_there(name_));
  EXPECT_EQ(find_namespaces(name_).size(), 3u) << "two hosts and their switch";
  const VirtualHosts loaded = load_virtual_hosts(name_);
  ASSERT_EQ(loaded.hosts.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded.hosts[i].name, all.hosts[i].name);
    EXPECT_EQ(loaded.hosts[i].address, all.hosts[i].address);
    EXPECT_EQ(loaded.hosts[i].rate, all.hosts[i].rate);
    EXPECT_EQ(loaded.hosts[i].core, all.hosts[i].core);
    EXPECT_FALSE(loaded.hosts[i].cpus.has_value());
  }
}

TEST_F(MadeHosts, AreTakenDownWithAllThatRunsOnThem) {
  VirtualHosts all = hosts(2);
  const bool quotas = no_quotas_because().empty();
  if (quotas)
    for (VirtualHost& host : all.hosts) host.cpus = 0.5;
  make_virtual_hosts(all, never);
  const pid_t child = fork();
  if (child == 0) {
    const InNamespace there(host_name(name_, 1));
    for (;;) pause();
  }
  const std::string before = fs::read_symlink("/proc/self/ns/net");
  while (fs::read_symlink(fmt::format("/proc/{}/ns/net", child)) == before) usleep(1000);
  const Removed gone = removed();
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(gone.namespaces, 3);
  EXPECT_EQ(gone.quotas, quotas ? 2 : 0);
  EXPECT_GE(gone.processes, 1);
  EXPECT_FALSE(is_there(name_));
  EXPECT_FALSE(fs::exists(hosts_folder(name_)));
  const Removed again = removed();
  EXPECT_EQ(again.namespaces, 0);
  EXPECT_FALSE(again.anything);
}

TEST_F(MadeHosts, AFailureLeavesNothingAndSaysWhy) {
  const auto all = hosts(2);
  EXPECT_EQ(failure([&] { make_virtual_hosts(all, never, [] { bad_input("no such clock"); }); }),
            fmt::format("cannot make cluster \"{}\": no such clock; nothing of it is left", name_));
  EXPECT_FALSE(is_there(name_));
  auto wrong = all;
  wrong.hosts[1].address = "10.not.an.address";
  EXPECT_NE(failure([&] { make_virtual_hosts(wrong, never); }).find("nothing of it is left"), std::string::npos);
  EXPECT_FALSE(is_there(name_));
}

int calls = 0, last_call = 0;

// At every point where it is asked for, an interruption takes everything back.
TEST_F(MadeHosts, AnInterruptionLeavesNothing) {
  const auto all = hosts(2);
  const auto interrupted = [] { return ++calls > last_call; };
  for (last_call = 0;; ++last_call) {
    calls = 0;
    ASSERT_LT(last_call, 100);
    try {
      make_virtual_hosts(all, interrupted);
      break;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), fmt::format("interrupted; nothing of cluster \"{}\" is left", name_));
      EXPECT_FALSE(is_there(name_)) << "after call " << last_call;
    }
  }
  EXPECT_GE(last_call, 3) << "before the switch, before each host, and at the end";
  EXPECT_TRUE(is_there(name_));
}

TEST_F(MadeHosts, ALostPartIsNamedWithTheRemedy) {
  const VirtualHosts all = made(2);
  umount2(namespace_path(all.hosts[1].name).c_str(), MNT_DETACH);
  fs::remove(namespace_path(all.hosts[1].name));
  const std::string lost = refusal([&] { load_virtual_hosts(name_); });
  EXPECT_NE(lost.find("has lost host " + all.hosts[1].name), std::string::npos) << lost;
  const std::string file = hosts_folder(name_) + "/hosts.json";
  std::ofstream(file) << R"({"name": "x", "hosts": []})";
  EXPECT_NE(refusal([&] { load_virtual_hosts(name_); }).find("no hosts"), std::string::npos);
  std::ofstream(file) << R"({"name": "x", "hosts": [{"name": 3}]})";
  EXPECT_NE(refusal([&] { load_virtual_hosts(name_); }).find(file), std::string::npos);
  std::ofstream(file) << "{";
  EXPECT_NE(refusal([&] { load_virtual_hosts(name_); }).find(file), std::string::npos);
  fs::remove(file);
  EXPECT_NE(refusal([&] { load_virtual_hosts(name_); }).find("is not whole"), std::string::npos);
}

// One maker at a time: a second waits until the first has let go.
TEST_F(MadeHosts, TheLockIsHeldByOneAtATime) {
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    if (read(go[0], &byte, 1) == 1) const HostsLock lock;
    _exit(0);
  }
  int status = 0;
  {
    const HostsLock lock;
    ASSERT_EQ(write(go[1], "x", 1), 1);
    usleep(50'000);
    EXPECT_EQ(waitpid(child, &status, WNOHANG), 0) << "it did not wait";
  }
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(go[0]), close(go[1]);
}

}  // namespace
}  // namespace weft::virtual_hosts
