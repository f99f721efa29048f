// `weft reshard` as its users see it: keys, the nine cases, sentences for bad layouts, and moves that are checked.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/draw/gantt.h"

#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::string kCase3 = "--shape 64,64,32 --src 2x2 --dst 2x2 --src-spec R,S0,R --dst-spec S0,R,R";

TEST(ReshardPlan, HasItsKeys) {
  const Json plan = parsed(weft("reshard plan " + kCase3 + " --json"));
  expect_keys(plan, {"strategy", "choice", "tasks", "chunks", "makespan", "lower_bound", "plan_ms", "ok", "why",
                     "problems", "bytes", "ranks", "hosts", "proved", "prices"});
  EXPECT_EQ(plan["ok"], true);
  EXPECT_EQ(plan["proved"], true);
  EXPECT_EQ(plan["tasks"], 4);
  EXPECT_EQ(plan["bytes"], 64 * 64 * 32 * 4);
}

TEST(ReshardPlan, TheNineCasesReachTheirOptimum) {
  const double optimum[] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5};
  const double naive[] = {0.5, 1, 0.75, 0.9375, 1, 1, 1, 1, 0.75};
  for (int i = 0; i < 9; ++i) {
    const std::string words = fmt::format("reshard plan --case {} --strategy broadcast --json", i + 1);
    const Json ours = parsed(weft(words));
    EXPECT_NEAR(ours["makespan"].get<double>(), optimum[i], 1e-3) << "case " << i + 1;
    EXPECT_NEAR(ours["lower_bound"].get<double>(), optimum[i], 1e-3) << "case " << i + 1;
    EXPECT_EQ(ours["ok"], true);
    EXPECT_NEAR(parsed(weft(words + " --choice naive"))["makespan"].get<double>(), naive[i], 1e-3) << "case " << i + 1;
  }
}

TEST(ReshardPlan, TextHasASummaryAndOneRowForEachDirectionOfANic) {
  const Ended ended = weft("reshard plan --case 3");
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* part :
       {"strategy", "why", "tasks", "makespan", "bound", "checked", "host 0", "host 3", "send", "receive", "100 %"})
    EXPECT_NE(ended.out.find(part), std::string::npos) << part;
  std::size_t longest = 0;
  for (std::size_t at = 0, end; at < ended.out.size(); at = end + 1) {
    end = ended.out.find('\n', at);
    if (ended.out.compare(at, 7, "  host ") == 0) longest = std::max(longest, end - at);
  }
  EXPECT_LE(longest, 100u);
}

TEST(ReshardPlan, ManyNicsAreCutToTheBusiest) {
  const Ended ended = weft("reshard plan --shape 512,64 --src 16x2 --dst 16x2 --src-spec S01,R --dst-spec R,S01");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_LE(std::count(ended.out.begin(), ended.out.end(), '\n'), 60);
  const Ended wide =
      weft("reshard plan --shape 512,64 --src 32x1 --dst 32x1 --src-spec S0,R --dst-spec R,S0 --strategy broadcast");
  EXPECT_NE(wide.out.find("rows are left out"), std::string::npos) << wide.out;
}

TEST(ReshardPlan, CompareHasEveryStrategyAndChoice) {
  const Json all = parsed(weft("reshard plan " + kCase3 + " --compare --json"));
  ASSERT_EQ(all["rows"].size(), 20u);
  double ours = 0;
  for (const Json& row : all["rows"])
    if (row["strategy"] == "broadcast" && row["choice"] == "ours") ours = row["makespan"];
  for (const Json& row : all["rows"]) EXPECT_GE(row["makespan"].get<double>(), ours - 1e-9) << row.dump();
  EXPECT_NE(weft("reshard plan " + kCase3 + " --compare").out.find("local_allgather"), std::string::npos);
}

TEST(ReshardPlan, DrawsAndSaves) {
  const std::string base = fmt::format("{}/weft_reshard_{}", ::testing::TempDir(), getpid());
  EXPECT_EQ(weft("reshard plan " + kCase3 + " --svg " + base + ".svg --save " + base + ".json").code, 0);
  std::ifstream file(base + ".svg");
  const std::string svg((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find("lower bound"), std::string::npos);
  EXPECT_EQ(parsed(weft("plan --load " + base + ".json --json"))["ok"], true);
  std::filesystem::remove(base + ".svg");
  std::filesystem::remove(base + ".json");
}

TEST(ReshardPlan, TakesNamedAxesAndNetworks) {
  const Json named = parsed(weft({"reshard", "plan", "--shape", "64,64", "--src", "dp=2,tp=4", "--dst", "tp=8@2",
                                  "--src-spec", "S(tp),R", "--dst-spec", "R,S(tp)", "--overlap", "--json"}));
  EXPECT_EQ(named["ranks"], 8);
  EXPECT_EQ(named["hosts"], 2);
  const Json network = parsed(weft("reshard plan --case 1 --network four-hosts-10gbit --json"));
  EXPECT_EQ(network["nic_bytes_per_s"], 1.25e9);
  EXPECT_NEAR(network["makespan"].get<double>(), 0.5, 1e-3);
  // What is in place does not travel.
  const Json same =
      parsed(weft("reshard plan --shape 64,64 --src 2x2 --dst 2x2 --src-spec S0,R --dst-spec S0,R --overlap --json"));
  EXPECT_EQ(same["makespan"], 0.0);
}

struct Bad {
  const char *words, *says;
};

TEST(ReshardPlan, BadLayoutsGetOneSentence) {
  const Bad cases[] = {
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec S0,S0 --dst-spec R,R", "host"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec S0 --dst-spec R,R", "dim"},
      {"--shape 8,0 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R", "--shape 8,0 has a size of 0"},
      {"--shape 8,a --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R", "\"a\""},
      {"--shape 8,8 --src 0x2 --dst 2x2 --src-spec R,R --dst-spec R,R", "--src 0x2"},
      {"--shape 8,8 --src 2x2 --dst 2by2 --src-spec R,R --dst-spec R,R", "2by2"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,S2 --dst-spec R,R", "S2"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --strategy magic", "magic"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --choice best", "best"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --dtype f64", "f64"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --dtype i32 --dst-dtype f32", "i32"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --dst-ranks 0-2", "names 3 ranks"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --link slow", "slow"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --src-spec R,R --dst-spec R,R --scale 1/2", "--size"},
      {"--shape 8,8 --src 2x2 --dst 2x2 --dst-spec R,R", "--src-spec is missing"},
      {"--case 10", "1 to 9"},
      {"--case 1 --shape 8,8", "its own --shape"},
      {"--tensors no-such", "llama-2-70b"},
      {"--tensors llama-2-70b --shape 8", "--shape"},
      {"--tensors llama-2-70b --scale 2", "1/64"},
      {"--case 1 --network no-such", "four-hosts-10gbit"},
      {"", "--src is missing"},
  };
  for (const Bad& bad : cases) {
    const Ended ended = weft(std::string("reshard plan ") + bad.words);
    EXPECT_EQ(ended.code, 2) << bad.words << ": " << ended.err;
    EXPECT_NE(ended.err.find(bad.says), std::string::npos) << bad.words << ": " << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_EQ(ended.out, "");
  }
}

TEST(ReshardPlan, ManifestsSayWhatIsWrongAndWhere) {
  const std::string path = fmt::format("{}/weft_manifest_{}.json", ::testing::TempDir(), getpid());
  std::ofstream(path) << R"({"name": "x", "source": "test", "params": {}, "dtype": "bf16"})";
  const Ended ended = weft("reshard plan --tensors " + path);
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find(path), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("\"network\""), std::string::npos) << ended.err;
  std::filesystem::remove(path);
}

TEST(ReshardPlan, ManyTensorsArePlannedTogether) {
  const Ended text = weft("reshard plan --tensors llama-2-70b --small");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("largest tensors"), std::string::npos);
  const Json llama = parsed(weft("reshard plan --tensors llama-2-70b --small --json"));
  EXPECT_LE(llama["makespan"].get<double>(), 1.05 * llama["lower_bound"].get<double>());
  EXPECT_EQ(llama["ok"], true);
}

// Moves are small: what counts is that every element is where it belongs.
Json run(const std::string& words) { return parsed(weft("reshard run " + words + " --rounds 2 --json")); }

TEST(ReshardRun, MovesAndChecksOverThreadsAndSharedMemory) {
  for (const char* transport : {"threads", "shm"}) {
    const Json moved = run(kCase3 + " --transport " + transport);
    expect_keys(moved, {"strategy", "tasks", "makespan", "lower_bound", "plan_ms", "time_us", "gbps", "verified",
                        "predicted_us", "of_makespan", "of_line_rate", "staging_bytes", "elements"});
    EXPECT_EQ(moved["verified"], true);
    EXPECT_EQ(moved["transport"], transport);
    EXPECT_EQ(moved["elements"], 4 * 64 * 64 * 32 / 2);  // two ranks for each of two halves
    EXPECT_TRUE(moved["of_makespan"].is_null());
    EXPECT_LE(moved["staging_bytes"].get<double>(), 16 << 20);
  }
}

TEST(ReshardRun, EveryStrategyMovesEveryKindOfLayout) {
  for (const char* layout : {"--shape 24,10 --src 1x1 --dst 2x2 --src-spec R,R --dst-spec R,R",
                             "--shape 7,5,3 --src 2x2 --dst 1x3 --src-spec S01,R,R --dst-spec R,S1,R",
                             "--shape 33 --src 2x2 --dst 3x1 --src-spec S1 --dst-spec S0",
                             "--shape 16,12 --src 2x2 --dst 4x1 --src-spec S0,S1 --dst-spec R,S0 --overlap",
                             "--shape 16,12 --src 2x2 --dst 2x2 --src-spec S01,R --dst-spec R,S01 --dst-ranks 2-5"}) {
    const Json moved = run(std::string(layout) + " --transport threads --compare");
    ASSERT_EQ(moved["rows"].size(), 5u) << layout;
    for (const Json& row : moved["rows"]) EXPECT_EQ(row["verified"], true) << layout;
  }
}

TEST(ReshardRun, EveryDtypeAndAChangeOnTheWay) {
  const std::string layout = "--shape 64,48 --src 1x2 --dst 2x2 --src-spec S1,R --dst-spec R,S01 --transport threads ";
  for (const char* dtype : {"u8", "bf16", "i32", "f32", "i64", "bf16 --dst-dtype f32", "f32 --dst-dtype bf16"})
    EXPECT_EQ(run(layout + "--dtype " + dtype)["verified"], true) << dtype;
  EXPECT_EQ(run(layout + "--dtype bf16 --dst-dtype f32")["bytes"], 64 * 48 * 2);
}

TEST(ReshardRun, PacedHostsNeedNotBeAlike) {
  const Json moved =
      run("--shape 64,1024,64 --src 1x1 --dst 2x2 --src-spec R,R,R --dst-spec R,R,R --link 1gbit,10us "
          "--strategy broadcast --transport threads");
  EXPECT_EQ(moved["verified"], true);
  EXPECT_EQ(moved["ranks"], 6);  // the source's host has a rank that holds nothing
  EXPECT_GT(moved["of_makespan"].get<double>(), 0.5) << moved.dump();
  EXPECT_LT(moved["of_makespan"].get<double>(), 1.02) << moved.dump();
}

TEST(ReshardRun, ManifestsWithFusedTensorsMove) {
  const Json llama = run("--tensors llama-2-70b --small --scale 1/8 --transport threads");
  EXPECT_EQ(llama["verified"], true);
  EXPECT_EQ(llama["tensors"], 4 * 5 + 3);
  EXPECT_EQ(run("--tensors gpt-2.6b --small --scale 1/16")["verified"], true);
}

TEST(ReshardRun, AWrongElementIsFoundAndNamed) {
  for (const char* transport : {"threads", "shm"}) {
    const Ended ended = weft("reshard run " + kCase3 + " --rounds 1 --spoil --transport " + transport);
    EXPECT_EQ(ended.code, 1) << ended.err;
    for (const char* part : {"tensor \"x\" is wrong on rank 7", "element [", "expected", "1 of "})
      EXPECT_NE(ended.err.find(part), std::string::npos) << part << ": " << ended.err;
  }
}

TEST(ReshardRun, RefusesWhatOneMachineCannotDo) {
  const Ended large = weft("reshard run --tensors kimi-k2");
  EXPECT_EQ(large.code, 2);
  EXPECT_NE(large.err.find("--small"), std::string::npos) << large.err;
  const Ended memory = weft("reshard run --case 3 --size 4TB");
  EXPECT_EQ(memory.code, 2);
  EXPECT_NE(memory.err.find("--size"), std::string::npos) << memory.err;
  EXPECT_EQ(weft("reshard run --case 3 --rounds 0").code, 2);
}

TEST(ReshardGantt, BarsThatShareARowAreStacked) {
  const auto pieces = draw::stacked({{0, 2, 0.5, 0, ""}, {1, 3, 0.5, 1, ""}});
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[1].begin_s, 1);
  EXPECT_EQ(pieces[1].from, 0);
  EXPECT_EQ(pieces[2].bar, 1u);
  EXPECT_EQ(pieces[2].from, 0.5);
  EXPECT_EQ(pieces[3].from, 0);
}

}  // namespace
}  // namespace weft::testing
