// Names and words, which need no root; the hosts themselves are tests/hosts/.
#include "weft/virtual/hosts.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/os/argv.h"
#include "weft/base/refusal_test.h"
#include "weft/virtual/mpirun.h"
#include "weft/virtual/tools.h"

namespace weft::virtual_hosts {
namespace {

TEST(VirtualHosts, NamesSayTheSetTheyBelongTo) {
  EXPECT_EQ(host_name("four", 3), "weft-four-3");
  EXPECT_EQ(hosts_of(host_name("four", 3)), "four");
  EXPECT_EQ(hosts_of(switch_name("a-b")), "a-b");
  for (const char* other : {"weft-four", "weft-four-x", "four-3", "weft--3", ""})
    EXPECT_EQ(hosts_of(other), "") << other;
}

TEST(VirtualHosts, ASetHasANameThatTheKernelTakes) {
  for (const char* good : {"a", "four", "A_1-b"}) EXPECT_NO_THROW(check_hosts_name(good)) << good;
  for (const char* bad : {"", "-a", "a b", "a/b", "a.b", "123456789012345678901234567890123"})
    EXPECT_NE(refusal([&] { check_hosts_name(bad); }).find("use 1 to 32 letters"), std::string::npos) << bad;
}

TEST(VirtualHosts, WhatIsNotThereIsRefusedWithTheRemedy) {
  EXPECT_EQ(refusal([] { load_virtual_hosts("no-such-hosts"); }),
            "there is no cluster \"no-such-hosts\"; make one with `weft cluster up --name no-such-hosts`");
}

TEST(VirtualHosts, JsonHasNullForWhatNobodyAskedFor) {
  const auto json = to_json(VirtualHost{.name = "weft-a-0", .address = "10.77.0.1", .rate = 125e6});
  EXPECT_EQ(json["device"], "eth0");
  EXPECT_EQ(json["rate"], 125e6);
  EXPECT_TRUE(json["cpus"].is_null());
  EXPECT_TRUE(json["core"].is_null());
}

TEST(VirtualHosts, MpirunPlacesRanksInBlocksAndEndsWithTheProgram) {
  const VirtualHosts all{.name = "a", .hosts = {{.name = "weft-a-0"}, {.name = "weft-a-1"}, {.name = "weft-a-2"}}};
  const MpirunOptions options{.ranks_per_host = 2, .num_hosts = 2, .passed = {"WEFT_X"}, .program = {"prog", "--flag"}};
  const auto words = mpirun_words(all, options);
  EXPECT_NE(std::find(words.begin(), words.end(), "weft-a-0:2,weft-a-1:2"), words.end());
  EXPECT_NE(std::find(words.begin(), words.end(), "WEFT_X"), words.end());
  ASSERT_GE(words.size(), 2u);
  EXPECT_EQ(words[words.size() - 2], "prog");
  EXPECT_EQ(words.back(), "--flag");
}

TEST(VirtualHosts, ProgramsAreFoundAndTheirFailuresTold) {
  EXPECT_NE(find_program("sh"), "");
  EXPECT_EQ(find_program("no-such-program"), "");
  EXPECT_NO_THROW(run_tool({"sh"}, "exit 0\n"));
  try {
    run_tool({"sh"}, "echo broken >&2; exit 3\n");
    FAIL() << "a tool that fails must throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "`sh` failed: broken");
  }
}

TEST(Argv, PointsIntoTheWordsAndEndsWithNull) {
  std::vector<std::string> words{"a", "bc"};
  const auto argv = argv_of(words);
  ASSERT_EQ(argv.size(), 3u);
  EXPECT_EQ(argv[1], words[1].data());
  EXPECT_EQ(argv[2], nullptr);
}

}  // namespace
}  // namespace weft::virtual_hosts
