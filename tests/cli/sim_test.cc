// `weft sim` as its users see it: exit codes, JSON keys, the bars of the paper's table, files that cannot be used.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

std::string written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SimCommand, OneCaseHasItsKeys) {
  const Ended ended = weft("sim t3 --model t-nlg --tp 8 --layer fc2 --config t3-mca --json");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json out = Json::parse(ended.out);
  ASSERT_EQ(out["cases"].size(), 2u);
  const Json &before = out["cases"][0], &after = out["cases"][1];
  EXPECT_EQ(before["config"], "sequential");
  EXPECT_EQ(after["config"], "t3_mca");
  EXPECT_LT(after["time_us"].get<double>(), before["time_us"].get<double>());
  EXPECT_GT(after["speedup"].get<double>(), 1.1);
  const std::int64_t chunk = std::int64_t{8192} * 4256 * 2 / 8;
  EXPECT_EQ(before["dram_bytes"]["rs_read"].get<std::int64_t>(), 15 * chunk);
  EXPECT_EQ(after["dram_bytes"]["rs_read"].get<std::int64_t>(), 6 * chunk);
}

// The whole comparison: every bar that is printed is met, and errors of fit and prediction stand apart.
TEST(SimCommand, TheTableMeetsItsBars) {
  const Ended ended = weft("sim t3 --table --json");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json paper = Json::parse(ended.out)["paper"];
  ASSERT_GE(paper["bars"].size(), 8u);
  for (const Json& bar : paper["bars"])
    EXPECT_TRUE(bar["met"].get<bool>()) << bar["what"] << " seen " << bar["seen"] << ", to reach " << bar["target"];
  for (const Json& row : paper["rows"]) EXPECT_TRUE(row.contains("fit_error") && row.contains("prediction_error"));
}

TEST(SimCommand, ATraceIsATimeline) {
  const std::string path = ::testing::TempDir() + "/weft_sim_trace.json";
  const Ended ended = weft({"sim", "t3", "--model", "mega-gpt-2", "--tp", "16", "--layer", "op", "--trace", path});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json trace = Json::parse(text_of_file(path));
  EXPECT_GT(trace["traceEvents"].size(), 3000u);
  std::remove(path.c_str());
}

TEST(SimCommand, AModelOfTheUsersOwnNeedsNoRecompiling) {
  const std::string model = written(
      "weft_sim_model.json",
      R"({"name": "mine", "source": "test", "kind": "transformer", "hidden": 1024, "layers": 2, "heads": 8, "kv_heads": 8,
          "head_dim": 128, "ffn": 4096, "gated": false, "sequence": 512, "batch": 4, "degrees": [4], "dtype": "bf16",
          "scale_down": {"why": "none", "ranks": 4, "tokens": 32, "hidden": 1, "ffn": 1}})");
  const Ended ended =
      weft({"sim", "t3", "--model", model, "--tp", "4", "--layer", "all", "--chip", "h200-like", "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(Json::parse(ended.out)["cases"].size(), 8u);
  std::remove(model.c_str());
}

TEST(SimCommand, SaysWhatCannotBeUsed) {
  struct Case {
    const char *words, *part;
  };
  for (const Case& one :
       {Case{"sim t3 --chip no-such", "t3-paper"}, Case{"sim t3 --layer fc9", "fc2"},
        Case{"sim t3 --model dlrm-v2", "transformer"}, Case{"sim t3 --config t4", "t3_mca"},
        Case{"sim t3 --tp 1", "--tp"}, Case{"sim t3 --tp 9", "9 ranks"}, Case{"sim t3 --set link_rate", "KEY=NUMBER"},
        Case{"sim t3 --set link_rate=0", "link_rate"}, Case{"sim t3 --set no_such=1", "link_rate"},
        Case{"sim t3 --table --svg /no/where", "folder"}}) {
    const Ended ended = weft(one.words);
    EXPECT_EQ(ended.code, 2) << one.words << ": " << ended.err;
    EXPECT_NE(ended.err.find(one.part), std::string::npos) << one.words << ": " << ended.err;
  }
  const std::string chip =
      written("weft_sim_chip.json", R"({"name": "x", "source": "y", "cus": {"value": 0, "source": "z"}})");
  const Ended ended = weft({"sim", "t3", "--chip", chip});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find(chip), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("cus"), std::string::npos) << ended.err;
  std::remove(chip.c_str());
}

// A plan is built and saved, then run on a network.
TEST(SimNetCommand, APlanOnANetworkHasItsKeys) {
  const std::string plan = ::testing::TempDir() + "/weft_net_plan.json",
                    trace = ::testing::TempDir() + "/weft_net_trace";
  ASSERT_EQ(weft({"plan", "gemm-rs", "--ranks", "16", "--m", "256", "--n", "256", "--k", "64", "--route", "ring",
                  "--save", plan})
                .code,
            0);
  const Ended ended =
      weft({"sim", "net", plan, "--network", "ring-16", "--chip", "t3-paper", "--trace", trace, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json out = Json::parse(ended.out);
  for (const char* key : {"time_us", "exposed_us", "hidden_us", "compute_us", "comm_us", "bound_us", "chain_us"})
    EXPECT_GT(out[key].get<double>(), 0) << key;
  EXPECT_EQ(out["ranks"], 16);
  EXPECT_EQ(out["simulated_ranks"], 1);
  EXPECT_EQ(out["bytes"].get<std::int64_t>(), 15 * 256 * 256 * 4);
  EXPECT_EQ(out["links"][0]["name"], "rank 0 -> rank 1");
  EXPECT_EQ(out["links"][0]["count"], 16);
  EXPECT_GT(Json::parse(text_of_file(trace))["traceEvents"].size(), 100u);
  const Ended slow = weft({"sim", "net", plan, "--network", "ring-16", "--slow-link", "rank 2>rank 3=4", "--json"});
  EXPECT_EQ(Json::parse(slow.out)["simulated_ranks"], 16);
  EXPECT_EQ(Json::parse(slow.out)["links"][0]["name"], "rank 2 -> rank 3");
  std::remove(plan.c_str());
  std::remove(trace.c_str());
}

TEST(SimNetCommand, AWorkloadIsATrainingStep) {
  const std::string trace = ::testing::TempDir() + "/weft_step_trace.json";
  const std::vector<std::string> words{"sim",
                                       "net",
                                       "t-nlg",
                                       "--network",
                                       "torus-16x8",
                                       "--chip",
                                       "h200-like",
                                       "--tp",
                                       "4",
                                       "--pp",
                                       "2",
                                       "--dp",
                                       "16",
                                       "--json",
                                       "--trace",
                                       trace,
                                       "--micro-batches",
                                       "2",
                                       "--backward",
                                       "fused",
                                       "--forward",
                                       "panels"};
  const Ended ended = weft(words);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json out = Json::parse(ended.out);
  EXPECT_EQ(out["ranks"], 128);
  EXPECT_LT(out["simulated_ranks"], 128);
  EXPECT_GT(out["operators"].size(), 10u);
  double exposed = 0;
  for (const Json& one : out["operators"]) exposed += one["exposed_us"].get<double>();
  EXPECT_GT(exposed, 0);
  EXPECT_GT(Json::parse(text_of_file(trace))["traceEvents"].size(), 100u);
  std::remove(trace.c_str());
}

TEST(SimNetCommand, AStepBecomesATraceAndIsReadAgain) {
  const std::string prefix = ::testing::TempDir() + "/weft_step", svg = prefix + ".svg";
  std::vector<std::string> words{"sim",  "net",    "t-nlg",    "--network", "ring-16", "--chip", "h200-like",
                                 "--tp", "4",      "--pp",     "2",         "--dp",    "2",      "--micro-batches",
                                 "2",    "--json", "--chakra", prefix,      "--svg",   svg};
  const Ended written_one = weft(words);
  ASSERT_EQ(written_one.code, 0) << written_one.err;
  EXPECT_NE(text_of_file(svg).find("<svg"), std::string::npos);
  const Ended read =
      weft({"sim", "net", prefix, "--network", "ring-16", "--groups", prefix + ".groups.json", "--json"});
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(Json::parse(read.out)["time_us"], Json::parse(written_one.out)["time_us"]);
  const Ended fused = weft({"sim", "net", prefix + ".0.et", "--network", "ring-16", "--groups", prefix + ".groups.json",
                            "--fuse", "fc2", "--json"});
  ASSERT_EQ(fused.code, 0) << fused.err;
  const Ended cut = weft({"sim", "net", prefix, "--network", "ring-16"});
  EXPECT_EQ(cut.code, 2);
  EXPECT_NE(cut.err.find("give it with --groups"), std::string::npos) << cut.err;
  const std::string text = written("weft_step.txt", "DATA\n1\nlayer -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 4096 1\n");
  const Ended layers = weft({"sim", "net", text, "--network", "ring-16", "--json"});
  ASSERT_EQ(layers.code, 0) << layers.err;
  EXPECT_EQ(Json::parse(layers.out)["simulated_ranks"], 1);
  for (int rank = 0; rank < 16; ++rank) std::remove((prefix + "." + std::to_string(rank) + ".et").c_str());
  for (const std::string& path : {prefix + ".groups.json", svg, text}) std::remove(path.c_str());
}

TEST(SimScaleCommand, OverRanksOverRatesAndOverWhatIsNotKnown) {
  const std::vector<std::string> base{"sim",        "scale",  "t-nlg",     "--network",
                                      "torus-16x8", "--chip", "h200-like", "--json"};
  const auto rows = [&](std::vector<std::string> more) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    const Ended ended = weft(all);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return Json::parse(ended.out)["rows"];
  };
  const Json sizes = rows({"--from", "8", "--to", "32"});
  ASSERT_EQ(sizes.size(), 3u);
  EXPECT_EQ(sizes[2]["ranks"], 32);
  EXPECT_LT(sizes[2]["fused_us"], sizes[2]["time_us"]);
  const Json rates = rows({"--sensitivity", "--dp", "2"});
  EXPECT_EQ(rates.size(), 11u);
  const Json slow = rows({"--from", "16", "--to", "16", "--slow-rank", "3=2"});
  EXPECT_EQ(slow[0]["simulated_ranks"], 16);
  const Ended bad = weft({"sim", "scale", "t-nlg", "--network", "torus-16x8", "--chip", "h200-like", "--band"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("has no tables"), std::string::npos) << bad.err;
}

TEST(SimNetCommand, BadInputIsOneSentenceAndExitCodeTwo) {
  const std::string plan = ::testing::TempDir() + "/weft_net_bad.json";
  ASSERT_EQ(weft({"plan", "ar", "--ranks", "32", "--m", "64", "--n", "64", "--save", plan}).code, 0);
  const std::string broken = written("weft_net_broken.json", R"({"name": "x", "kind": "ring", "ranks": 4})");
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{plan}, "no network to run on"},
      {{plan, "--network", "nowhere"}, "unknown network \"nowhere\"; use one of"},
      {{plan, "--network", "ring-16"}, "is for 32 ranks, but network \"ring-16\" has 16"},
      {{plan, "--network", broken}, "\"link\""},
      {{plan, "--network", "torus-16x8", "--slow-rank", "128=2"}, "rank 128 is slower, but there are 128"},
      {{plan, "--network", "torus-16x8", "--slow-rank", "1=1e-400"}, "--slow-rank 1=1e-400"},
      {{plan, "--network", "torus-16x8", "--slow-link", "rank 0>rank 9=2"}, "no link leads from"},
      {{plan, "--network", "torus-16x8", "--burst", "-1"}, "--burst"},
      {{plan, "--network", "torus-16x8", "--chip", "t3-paper", "--cluster", "x"},
       "one of --cluster, --chip and --steps"},
      {{broken, "--network", "torus-16x8"}, "weft_net_broken.json"},
      {{"gpt-5", "--network", "torus-16x8", "--chip", "h200-like"}, "unknown workload \"gpt-5\""},
      {{"gpt-3", "--network", "torus-16x8"}, "give either --chip NAME|FILE or --cluster FILE"},
      {{"gpt-3", "--network", "torus-16x8", "--chip", "h200-like"}, "has 128; use a larger network"},
      {{"gpt-3", "--network", "torus-16x8", "--chip", "h200-like", "--schedule", "later"}, "\"later\""},
      {{"gpt-3", "--network", "torus-16x8", "--chip", "h200-like", "--forward", "mixed"}, "unknown overlap \"mixed\""},
      {{"gpt-3", "--network", "torus-16x8", "--chip", "h200-like", "--burst", "2"}, "is none, leave them out"}};
  for (const auto& [words, text] : cases) {
    std::vector<std::string> all{"sim", "net"};
    all.insert(all.end(), words.begin(), words.end());
    const Ended ended = weft(all);
    EXPECT_EQ(ended.code, 2) << text;
    EXPECT_TRUE(ended.out.empty());
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
  std::remove(plan.c_str());
  std::remove(broken.c_str());
}

}  // namespace
}  // namespace weft::testing
