// `weft plan`: keys, files that load again, and files that do not.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_file.h"
#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

TEST(Cli, PlanHasItsKeys) {
  const Json plan = parsed(weft("plan gemm-rs --ranks 4 --m 256 --n 256 --k 64 --route ring --json"));
  expect_keys(plan,
              {"ok", "steps", "triggers", "bytes_moved", "estimate_us", "why", "problems", "verify_ms", "build_ms"});
  EXPECT_EQ(plan["ok"], true);
  EXPECT_EQ(plan["steps"], 16);
  EXPECT_EQ(plan["bytes_moved"], 3 * 256 * 256 * 4);
  EXPECT_TRUE(plan["problems"].empty());
  const Ended text = weft("plan gemm-rs --ranks 4 --m 256 --n 256 --k 64");
  for (const char* part : {"proved in", "estimate", "why", "moves"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
}

TEST(Cli, EveryProducerGoesIntoEverySpace) {
  for (const char* producer : {"gemm", "gemv", "embedding", "embedding-bag", "copy"})
    for (const char* space : {"rs", "ar", "ag", "a2a", "bcast", "keep", "reduce_scatter", "all-reduce"})
      EXPECT_EQ(weft(fmt::format("plan {}-{} --ranks 3", producer, space)).code, 0) << producer << " " << space;
}

TEST_F(CliFile, SavedPlanLoads) {
  const Json saved = parsed(weft({"plan", "gemm-ar", "--ranks", "4", "--save", path_, "--json"}));
  const Json loaded = parsed(weft({"plan", "--load", path_, "--json"}));
  for (const char* key : {"ok", "steps", "triggers", "bytes_moved", "estimate_us", "why"})
    EXPECT_EQ(saved[key], loaded[key]);
}

TEST_F(CliFile, TruncatedPlanIsBadInputNotACrash) {
  ASSERT_EQ(weft({"plan", "gemm-rs", "--ranks", "2", "--save", path_}).code, 0);
  const std::string text = read();
  for (std::size_t size = 0; size + 2 < text.size(); size += text.size() / 23 + 1) {
    write(text.substr(0, size));
    const Ended ended = weft({"plan", "--load", path_});
    EXPECT_EQ(ended.code, 2) << size;
    EXPECT_NE(ended.err.find(path_), std::string::npos) << ended.err;
  }
}

TEST_F(CliFile, EditedPlanIsRefusedWithItsProblems) {
  ASSERT_EQ(weft({"plan", "gemm-rs", "--ranks", "4", "--route", "ring", "--save", path_}).code, 0);
  Json plan = Json::parse(read());
  for (Json& rule : plan["rules"]) rule.erase("signals");
  write(plan.dump());
  const Ended refused = weft({"plan", "--load", path_, "--json"});
  EXPECT_EQ(refused.code, 2);
  const Json report = Json::parse(refused.out, nullptr, false);
  ASSERT_TRUE(report.is_object()) << refused.out;
  EXPECT_EQ(report["ok"], false);
  EXPECT_FALSE(report["problems"].empty());
  const Ended text = weft({"plan", "--load", path_});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.out.find("refused"), std::string::npos);
  plan["no_such_field"] = 1;
  write(plan.dump());
  EXPECT_EQ(weft({"plan", "--load", path_}).code, 2);
}

}  // namespace
}  // namespace weft::testing
