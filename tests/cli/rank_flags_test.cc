// The flags of ranks: what they refuse, what world they ask for, and that on_ranks does what they say with threads.
// Processes and mpirun are cli_test's.
#include "cli/rank_flags.h"

#include <atomic>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"
#include "weft/base/thread_pool.h"

#include "cli/ranks.h"

namespace weft::cli {
namespace {

TEST(CliRankFlags, RefuseWithTheValueAndTheRemedy) {
  EXPECT_EQ(refusal([] { check_rank_flags({.threads = 0}); }), "--threads is 0; use 1 to 256");
  EXPECT_EQ(refusal([] { check_rank_flags({.transport = "tcp"}); }), "unknown transport \"tcp\"; use shm or threads");
  EXPECT_EQ(refusal([] { check_rank_flags({.per_host = 2}); }),
            "--ranks-per-host is 2, but no link joins hosts; add one, as --link 1gbit");
  EXPECT_NE(refusal([] { check_rank_flags({.link = "10gibt"}); }).find("10gibt"), std::string::npos);
  EXPECT_NE(refusal([] { check_num_ranks(1, 2); }).find("one rank has nobody"), std::string::npos);
  EXPECT_NE(refusal([] { check_num_ranks(0); }).find("--ranks is 0; use 1 to"), std::string::npos);
  EXPECT_NO_THROW(check_rank_flags({.per_host = 2, .link = "1gbit"}));
}

TEST(CliRankFlags, ALinkIsPacedUnlessItIsMemoryOrAWire) {
  for (const char* link : {"", "shm", "tls", "ucx", "ucx,trusted"}) EXPECT_FALSE(paced_link(link)) << link;
  EXPECT_EQ(paced_link("1gbit,10us,nic"), (Link{125e6, 10e-6, Fabric::nic}));
  EXPECT_EQ(world_options({.link = "ucx"}).wire, WireKind::ucx);
  EXPECT_EQ(world_options({.link = "ucx,trusted"}).wire, WireKind::trusted_ucx);
  EXPECT_EQ(world_options({.link = "tls"}).wire, WireKind::tls);
  const WorldOptions options = world_options({.per_host = 2, .threads = 3, .link = "1gbit", .trace = "t.json"});
  EXPECT_FALSE(options.wire);
  EXPECT_EQ(options.ranks_per_host, 2);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.trace, "t.json");
}

TEST(CliOnRanks, ThreadsRunTheBodyOncePerRankAfterTheCheck) {
  const RankFlags flags{.count = 3, .transport = "threads"};
  std::atomic<int> bodies{0};
  bool checked = false;
  const auto body = [&](World& world) {
    EXPECT_TRUE(checked);
    EXPECT_EQ(world.size(), 3);
    ++bodies;
    return world.rank() == 1 ? 7 : 0;
  };
  EXPECT_EQ(on_ranks(flags, body, {.before = [&] { checked = true; }}), 7);
  EXPECT_EQ(bodies, 3);
}

TEST(CliOnRanks, ARefusalBeforeLeavesNoRankToRun) {
  const auto body = [](World&) -> int { throw std::logic_error("a rank was started"); };
  EXPECT_EQ(refusal([&] { on_ranks({.count = 2, .transport = "threads"}, body, {.before = [] { bad_input("no"); }}); }),
            "no");
}

TEST(CliOnRanks, TheCommandMayMakeTheWorldItself) {
  const auto body = [](World& world) { return world.threads().size(); };
  EXPECT_EQ(on_ranks({.transport = "threads"}, body, {.options = [] { return WorldOptions{.threads = 2}; }}), 2);
}

}  // namespace
}  // namespace weft::cli
