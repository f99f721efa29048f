// `weft bench` and `weft demo`: every op on ranks that are processes and threads, with its keys.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"

#include "tests/cli/cli_file.h"
#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kBenchKeys{
    "op",       "ranks",           "transport",   "link",          "shape",
    "route",    "compute_us",      "comm_us",     "sequential_us", "decomposed_us",
    "mpi_us",   "fused_us",        "aa_band",     "cpu_us",        "speedup",
    "hidden",   "max_rel_err",     "rounds",      "bytes_sent",    "signals_sent",
    "verified", "sequential_gemm", "panels",      "predicted_us",  "predicted",
    "dnnl_us",  "hidden_note",     "openblas_us", "library",       "library_us",
    "floor_us"};

class BenchOf : public ::testing::TestWithParam<std::string> {};

TEST_P(BenchOf, VerifiesOnOneTwoAndThreeRanks) {
  const bool bags = GetParam().starts_with("embedding"), product = GetParam().find("gem") != std::string::npos;
  const std::string shape = bags      ? "--tables 2 --rows 11 --dim 4 --batch 13 --pooling 3 --rounds 3"
                            : product ? "--m 13 --n 17 --k 7 --rounds 3"
                                      : "--m 13 --n 17 --rounds 3";
  for (const int ranks : {1, 2, 3})
    for (const char* transport : {"shm", "threads"}) {
      const Json report = parsed(
          weft(fmt::format("bench {} --ranks {} --transport {} {} --json", GetParam(), ranks, transport, shape)));
      expect_keys(report, kBenchKeys);
      EXPECT_EQ(report["op"], GetParam());
      EXPECT_EQ(report["ranks"], ranks);
      EXPECT_EQ(report["transport"], transport);
      EXPECT_EQ(report["verified"], true);
      EXPECT_GT(report["fused_us"].get<double>(), 0);
      EXPECT_EQ(report["decomposed_us"].is_number(), report["sequential_us"].is_number()) << report.dump();
      EXPECT_LT(report["max_rel_err"].get<double>(), 1e-5);
      EXPECT_LE(report["hidden"].is_number() ? report["hidden"].get<double>() : 0, 1.05) << report.dump();
      EXPECT_FALSE(report["hidden"].is_number() && report["hidden_note"].is_string()) << report.dump();
      EXPECT_EQ(report["bytes_sent"] > 0, ranks > 1 && GetParam().find("keep") == std::string::npos) << report.dump();
    }
}
INSTANTIATE_TEST_SUITE_P(Cli, BenchOf,
                         ::testing::Values("gemm-rs", "gemm-ar", "gemv-ar", "gemm-a2a", "embedding-a2a", "ag-gemm",
                                           "rs", "ar", "ag", "a2a", "bcast", "gemm-ag", "gemm-bcast", "gemm-keep",
                                           "gemv-rs", "embedding-rs", "copy-keep"));

// What ran can be proved, and simulated, without guessing what `auto` took.
TEST(Cli, BenchSavesThePlansThatRan) {
  const ScratchFolder scratch;
  const std::string fused = scratch.file("fused.json"), alone = scratch.file("alone.json");
  const Json report = parsed(
      weft(fmt::format("bench gemm-ar --m 200 --n 96 --k 64 --ranks 3 --route ring --slices 2 --rounds 3 --save {} "
                       "--save-collective {} --json",
                       fused, alone)));
  const Json plan = parsed(weft(fmt::format("plan --load {} --json", fused)));
  EXPECT_EQ(plan["name"], "gemm all_reduce ring");
  EXPECT_EQ(plan["bytes_moved"], report["bytes_sent"]) << plan.dump();
  const Json collective = parsed(weft(fmt::format("plan --load {} --json", alone)));
  EXPECT_EQ(collective["name"], "copy all_reduce " + report["comm_route"].get<std::string>());
}

TEST(Cli, BenchTakesRoutesTypesAndThreads) {
  const std::string shape = " --m 200 --n 96 --k 64";
  for (const std::string& words :
       {"gemm-rs --route direct" + shape, "gemm-ar --route one_shot" + shape, "gemm-ar --route ring --slices 2" + shape,
        "gemm-ar --wire bf16 --route two_shot" + shape, "gemm-rs --weight bf16" + shape,
        std::string("gemv-ar --m 3 --n 96 --k 64 --weight bf16"), "gemm-rs --threads 2" + shape,
        "gemm-a2a --stack columns" + shape, std::string("bcast --m 200 --n 96 --root 1"),
        std::string("embedding-a2a --tables 2 --rows 500 --dim 16 --batch 64 --pool mean"),
        "gemm-rs --threads 2 --transport threads" + shape, "gemm-rs --tile 16,32 --link shm" + shape}) {
    const Json report = parsed(weft(fmt::format("bench {} --ranks 2 --rounds 2 --json", words)));
    EXPECT_EQ(report["verified"], true) << words;
  }
}

TEST(Cli, TwoLevelRoutesArePlannedProvedAndRun) {
  for (const char* op : {"gemm-rs", "gemm-ar", "ag-gemm", "ag", "bcast"}) {
    const bool product = std::string_view(op).find("gemm") != std::string_view::npos;
    const std::string words =
        fmt::format("{} --ranks 4 --ranks-per-host 2 --route two-level --m 100 --n 96{}", op, product ? " --k 64" : "");
    const Json plan = parsed(weft(fmt::format("plan {} --json", words)));
    EXPECT_EQ(plan["ok"], true) << plan.dump();
    EXPECT_EQ(plan["why"].get<std::string>().rfind("two_level: as asked", 0), 0u) << plan.dump();
    const Json report = parsed(weft(fmt::format("bench {} --link 1gbit --rounds 2 --json", words)));
    EXPECT_EQ(report["verified"], true) << words;
    EXPECT_EQ(report["route"], "two_level") << words;
  }
}

TEST(Cli, BenchOfACollectiveIsATableOverSizes) {
  const Json report = parsed(weft("bench ar --ranks 2 --sizes 4K:64K --rounds 2 --json"));
  expect_keys(report, kBenchKeys);
  ASSERT_EQ(report["sizes"].size(), 3u);
  for (const Json& row : report["sizes"]) {
    expect_keys(row, {"size_bytes", "count", "type", "time_us", "algbw_gbps", "busbw_gbps", "wrong"});
    EXPECT_EQ(row["wrong"], 0);
  }
  const Ended text = weft("bench rs --ranks 2 --sizes 8K --rounds 2");
  for (const char* part : {"size", "algbw", "busbw", "#wrong", "Avg bus bandwidth"})
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out;
}

TEST(Cli, BenchRunsShortOpsBackToBack) {
  const Json report = parsed(weft("bench gemv-ar --ranks 2 --n 64 --k 16 --rounds 2 --paired 200 --json"));
  ASSERT_TRUE(report.contains("paired")) << report.dump();
  expect_keys(report["paired"], {"fused_us", "compute_us", "extra_us", "mpi_allreduce_us", "ratio", "runs"});
  EXPECT_EQ(report["paired"]["runs"], 200);
}

TEST(Cli, BenchTakesTheTablesOfAWorkload) {
  const Json report = parsed(weft(
      "bench embedding-a2a --workload dlrm-v2 --tables-of one-hot --rows 50 --batch 64 --zipf 1.1 --ranks 3 --rounds 2 "
      "--json"));
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["shape"]["tables_of_ranks"].size(), 3u);
  EXPECT_TRUE(report["decomposed_us"].is_number());
}

TEST_F(CliFile, BenchWalksTheAxisAndDrawsIt) {
  const Json report =
      parsed(weft({"bench", "gemm-ar", "--axis", "--m", "64", "--n", "64", "--rounds", "2", "--json", "--svg", path_}));
  ASSERT_TRUE(report.contains("points")) << report.dump();
  expect_keys(report["points"][0], kBenchKeys);
  const std::string svg = read();
  EXPECT_EQ(svg.rfind("<svg", 0), 0u) << svg.substr(0, 80);
  EXPECT_NE(svg.find("panels"), std::string::npos);
}

TEST(Cli, BenchSaysWhatItMeasured) {
  const Ended ended = weft("bench gemm-rs --ranks 2 --m 128 --n 128 --k 64 --rounds 3");
  EXPECT_EQ(ended.code, 0);
  for (const char* part :
       {"compute", "collective", "sequential", "panels", "fused", "predicted", "Verified against float64"})
    EXPECT_NE(ended.out.find(part), std::string::npos) << ended.out;
}

TEST(Cli, DemoEndsWell) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "its shapes take two minutes here; bench runs the same code on smaller ones";
#endif
  const Ended ended = weft("demo");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("proof"), std::string::npos);
  EXPECT_NE(ended.out.find("Try next"), std::string::npos);
  expect_keys(parsed(weft("demo --ranks 1 --json")), kBenchKeys);
}

}  // namespace
}  // namespace weft::testing
