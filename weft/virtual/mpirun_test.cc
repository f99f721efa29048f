// The words that mpirun is started with, and what of the environment goes along. No root, no mpirun.
#include "weft/virtual/mpirun.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "weft/virtual/made_hosts_test.h"

namespace weft::virtual_hosts {
namespace {

using Words = std::vector<std::string>;

VirtualHosts two_hosts() { return {.name = "a", .hosts = {{.name = "weft-a-0"}, {.name = "weft-a-1"}}}; }

// All values that a parameter is given.
Words values_of(const Words& words, const std::string& name) {
  Words values;
  for (std::size_t i = 0; i + 2 < words.size(); ++i)
    if (words[i] == "--mca" && words[i + 1] == name) values.push_back(words[i + 2]);
  return values;
}

TEST(Mpirun, AParameterOfTheUserStandsInPlaceOfOurs) {
  MpirunOptions options{.num_hosts = 2, .program = {"prog"}};
  EXPECT_EQ(values_of(mpirun_words(two_hosts(), options), "pml"), Words{"ucx,ob1"});
  options.mca = {{"pml", "ob1"}, {"coll", "tuned"}};
  const Words words = mpirun_words(two_hosts(), options);
  EXPECT_EQ(values_of(words, "pml"), Words{"ob1"}) << "mpirun refuses a parameter that is given twice";
  EXPECT_EQ(values_of(words, "coll"), Words{"tuned"});
  EXPECT_EQ(values_of(words, "btl_tcp_if_include"), Words{kHostDevice});
  EXPECT_EQ(words.back(), "prog");
}

// A rank that spins while another needs its core would make every message as slow as a turn of the scheduler.
TEST(Mpirun, RanksThatShareACoreYieldIt) {
  const auto yields = [](const VirtualHosts& all, int ranks_per_host) {
    const MpirunOptions options{.ranks_per_host = ranks_per_host, .num_hosts = 1, .program = {"prog"}};
    return values_of(mpirun_words(all, options), "mpi_yield_when_idle") == Words{"1"};
  };
  VirtualHosts all = two_hosts();
  EXPECT_FALSE(yields(all, 1));
  EXPECT_TRUE(yields(all, static_cast<int>(std::thread::hardware_concurrency()) + 1));
  all.hosts[0].cpus = 0.5;
  EXPECT_TRUE(yields(all, 1)) << "half a core for one rank";
  all.hosts[0].cpus = 1;
  EXPECT_FALSE(yields(all, 1));
  all.hosts[0].core = 0;
  EXPECT_FALSE(yields(all, 1));
  EXPECT_TRUE(yields(all, 2)) << "two ranks on one core";
}

TEST(Mpirun, RanksSeeWhatIsMeantForThemAlone) {
  for (const char* name : {"WEFT_LINK", "UCX_TLS", "OMP_NUM_THREADS"}) {
    EXPECT_TRUE(reaches_ranks(name)) << name;
    EXPECT_TRUE(reaches_mpirun(name)) << name;
  }
  for (const char* name : {"PATH", "HOME", "LC_ALL", "OMPI_MCA_btl"}) {
    EXPECT_FALSE(reaches_ranks(name)) << name;
    EXPECT_TRUE(reaches_mpirun(name)) << name;
  }
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "MY_WEFT_", "PATHS", ""}) {
    EXPECT_FALSE(reaches_ranks(name)) << name;
    EXPECT_FALSE(reaches_mpirun(name)) << name;
  }
}

TEST_F(MadeHosts, TheAgentIsAProgramThatEntersItsHosts) {
  const VirtualHosts all = made(1);
  write_agent(all);
  const std::string path = agent_path(name_);
  EXPECT_EQ(access(path.c_str(), X_OK), 0);
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(text.starts_with("#!/bin/sh\n")) << text;
  EXPECT_NE(text.find("cluster enter --name " + name_ + " --host \"$host\""), std::string::npos) << text;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_NE(text.find("exec '" + self + "'"), std::string::npos) << text;
}

TEST(Tools, AProgramIsAskedForByItsPackage) {
  EXPECT_NO_THROW(require_program("sh", "dash"));
  try {
    require_program("no-such-program", "some-package");
    FAIL() << "it must be refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    EXPECT_NE(std::string(error.what()).find("install the Debian package some-package"), std::string::npos);
  }
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh") << "a path is taken as it is";
  EXPECT_EQ(find_program("/nowhere/sh"), "");
}

// Input and output lie in memory: neither a long input nor a long complaint can fill a pipe and stand still.
TEST(Tools, LongInputsAndLongComplaintsDoNotBlock) {
  const std::string comment = "#" + std::string(100, 'x') + "\n";
  std::string script;
  while (script.size() < 1 << 20) script += comment;
  EXPECT_NO_THROW(run_tool({"sh"}, script + "exit 0\n"));
  try {
    run_tool({"sh"},
             "i=0; while [ $i -lt 3000 ]; do echo line $i of a long complaint >&2; i=$((i+1)); done; kill -9 $$\n");
    FAIL() << "a tool that a signal ends must throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "`sh` failed: line 0 of a long complaint");
  }
}

}  // namespace
}  // namespace weft::virtual_hosts
