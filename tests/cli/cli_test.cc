// The command line is a contract: names, JSON keys and exit codes. 0 done, 2 bad input with one sentence that names the
// value, 1 failure; and nothing is left running.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/transport/join/pmix_job.h"
#include "weft/transport/wire/wire_kind.h"

#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kCommands{"ledger", "demo",    "bench",    "plan", "run", "reshard",
                                         "sim",    "cluster", "generate", "eval", "spd", "info"};

class CliFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  const std::string path_ = fmt::format("{}/weft_cli_plan_{}.json", ::testing::TempDir(), getpid());
};

TEST(Cli, HelpListsTheCommandsAndEachHasAnExample) {
  const Ended help = weft("--help");
  EXPECT_EQ(help.code, 0);
  for (const std::string& command : kCommands) {
    EXPECT_NE(help.out.find("\n  " + command + " "), std::string::npos) << command;
    const Ended own = weft(command + " --help");
    EXPECT_EQ(own.code, 0);
    EXPECT_NE(own.out.find("Example:\n  weft " + command), std::string::npos) << own.out;
    EXPECT_NE(own.out.find("--json"), std::string::npos) << own.out;
    EXPECT_EQ(own.err, "");
  }
  EXPECT_EQ(weft("--version").out.rfind("weft ", 0), 0u);
}

// An instruction set narrower than the machine's can be asked for; one that is not here is refused by every command.
TEST(Cli, TheInstructionSetCanBeChosen) {
  const std::string before = std::getenv("WEFT_ISA") == nullptr ? "" : std::getenv("WEFT_ISA");
  setenv("WEFT_ISA", "baseline", 1);
  const Json info = parsed(weft("info --json"));
  const Ended text = weft("info");
  setenv("WEFT_ISA", "sse9", 1);
  for (const char* command : {"info", "plan gemm-rs --m 64 --n 64 --k 64"}) {
    const Ended refused = weft(command);
    EXPECT_EQ(refused.code, 2) << command;
    EXPECT_NE(refused.err.find("WEFT_ISA is \"sse9\", which is no instruction set of this machine; use baseline"),
              std::string::npos)
        << refused.err;
  }
  before.empty() ? unsetenv("WEFT_ISA") : setenv("WEFT_ISA", before.c_str(), 1);
  EXPECT_EQ(info["isa"], "baseline");
  EXPECT_EQ(info["kernels"], "weft's own, baseline");
  if (info["machine_isa"] != "baseline") {
    EXPECT_NE(text.out.find("baseline, by WEFT_ISA; the machine has"), std::string::npos) << text.out;
  }
}

TEST(Cli, InfoHasItsKeys) {
  const Json info = parsed(weft("info --json"));
  expect_keys(info, {"version", "isa", "transports", "cuda", "rates", "kernels", "cores"});
  Json transports{"threads", "shm"};
  if (available(WireKind::tls)) transports.push_back("tls");
  if (available(WireKind::ucx)) transports.push_back("ucx");
  EXPECT_EQ(info["transports"], transports);
  EXPECT_EQ(info["tls"].is_string(), available(WireKind::tls)) << info["tls"];
  EXPECT_EQ(info["ucx"].is_string(), available(WireKind::ucx)) << info["ucx"];
  EXPECT_EQ(info["pmix"], PmixJob::available());
  EXPECT_TRUE(info["mpi"] == false || access(info["mpi"].get<std::string>().c_str(), X_OK) == 0) << info["mpi"];
  if (geteuid() != 0) {
    EXPECT_EQ(info["virtual_hosts"], false);
  }
  EXPECT_TRUE(info["rates"].is_null());
  EXPECT_NE(weft("info").out.find("transports"), std::string::npos);
}

TEST_F(CliFile, CalibrateMeasuresAndSavesACluster) {
  const Json info = parsed(weft({"info", "--calibrate", "--json", "--save", path_}));
  for (const char* rate :
       {"flops_per_s", "read_bytes_per_s", "write_bytes_per_s", "tile_bytes_per_s", "gather_bytes_per_s",
        "gather_cached_bytes_per_s", "cache_bytes", "cache_bytes_per_s", "row_s", "signal_s", "step_s", "run_s"})
    EXPECT_GT(info["rates"][rate].get<double>(), 0) << rate;
  EXPECT_EQ(weft({"plan", "gemm-rs", "--cluster", path_}).code, 0);
}

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
  std::ifstream file(path_);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (std::size_t size = 0; size + 2 < text.size(); size += text.size() / 23 + 1) {
    write(text.substr(0, size));
    const Ended ended = weft({"plan", "--load", path_});
    EXPECT_EQ(ended.code, 2) << size;
    EXPECT_NE(ended.err.find(path_), std::string::npos) << ended.err;
  }
}

TEST_F(CliFile, EditedPlanIsRefusedWithItsProblems) {
  ASSERT_EQ(weft({"plan", "gemm-rs", "--ranks", "4", "--route", "ring", "--save", path_}).code, 0);
  std::ifstream file(path_);
  Json plan = Json::parse(file);
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

struct Bad {
  const char* words;
  const char* names;  // what the sentence must name
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << "weft " << bad.words; }

class BadInput : public ::testing::TestWithParam<Bad> {};

TEST_P(BadInput, IsOneSentenceAndExitTwo) {
  const Ended ended = weft(GetParam().words);
  EXPECT_EQ(ended.code, 2) << GetParam().words;
  EXPECT_EQ(ended.out, "") << GetParam().words;
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  EXPECT_EQ(ended.err.rfind("weft: ", 0), 0u) << ended.err;
  EXPECT_NE(ended.err.find(GetParam().names), std::string::npos) << GetParam().words << ": " << ended.err;
}

const Bad kBad[] = {
    {"", "--help"},
    {"bogus", "bogus"},
    {"--bogus", "--bogus"},
    {"bench", "op"},
    {"bench nothing", "nothing"},
    {"bench copy", "copy"},
    {"bench ar --sizes 4X", "4X"},
    {"bench ar --sizes 1M:1K", "1M:1K"},
    {"bench gemm-rs --paired -3", "-3"},
    {"bench embedding-a2a --zipf -1", "--zipf is -1"},
    {"bench embedding-a2a --workload t-nlg", "t-nlg"},
    {"bench embedding-a2a --workload none-such", "none-such"},
    {"bench embedding-a2a --tables-of some", "some"},
    {"bench embedding-a2a --workload dlrm-v2 --tables 4", "--tables"},
    {"bench gemm-", "gemm-"},
    {"bench -rs", "op is required"},
    {"bench keep", "keep"},
    {"bench rs-gemm", "rs-gemm"},
    {"bench gemm-rs gemm-ar", "gemm-ar"},
    {"bench gemm-rs --ranks 0", "--ranks is 0"},
    {"bench gemm-rs --ranks -1", "--ranks is -1"},
    {"bench gemm-rs --ranks 1000", "--ranks is 1000"},
    {"bench gemm-rs --ranks 99999999999999999999", "--ranks"},
    {"bench gemm-rs --ranks two", "two"},
    {"bench gemm-rs --ranks 2.5", "2.5"},
    {"bench gemm-rs --ranks", "--ranks"},
    {"bench gemm-rs --m 0", "--m is 0"},
    {"bench gemm-rs --n -7", "--n is -7"},
    {"bench gemm-rs --k 0", "--k is 0"},
    {"bench gemm-rs --m 9999999999", "9999999999"},
    {"bench gemm-rs --m 2000000000 --n 2000000000", "2000000000"},
    {"bench gemm-rs --m 1000000 --n 1000000", "1000000"},
    {"bench gemm-rs --m 1000000 --n 1000000 --transport threads", "free"},
    {"bench gemm-rs --k 2000000000 --m 8 --n 64", "free"},
    {"bench gemm-rs --m 1e3", "1e3"},
    {"bench gemm-rs --tile 4", "--tile"},
    {"bench gemm-rs --tile -4,4", "-4,4"},
    {"bench gemm-rs --tile a,b", "a"},
    {"bench gemm-rs --route express", "express"},
    {"bench gemm-rs --route one_shot", "one_shot"},
    {"bench gemm-keep --route ring", "ring"},
    {"bench gemm-rs --slices 2", "slices"},
    {"bench gemm-ar --slices -2", "-2"},
    {"bench gemm-rs --wire i64", "i64"},
    {"bench gemm-rs --wire f99", "f99"},
    {"bench gemm-ag --wire bf16", "bf16"},
    {"bench gemm-rs --weight u8", "u8"},
    {"bench gemm-rs --stack rows", "--stack"},
    {"bench gemm-a2a --stack diagonally", "diagonally"},
    {"bench bcast --root 2", "root 2"},
    {"bench bcast --root -1", "root -1"},
    {"bench embedding-a2a --tables 0", "--tables is 0"},
    {"bench embedding-a2a --rows -3", "--rows is -3"},
    {"bench embedding-a2a --rows 2000000000", "free"},
    {"bench embedding-a2a --dim 0", "--dim is 0"},
    {"bench embedding-a2a --batch 0", "--batch is 0"},
    {"bench embedding-a2a --pooling 0", "--pooling is 0"},
    {"bench embedding-a2a --pool max", "max"},
    {"bench gemm-rs --threads 0", "--threads is 0"},
    {"bench gemm-rs --threads 100000", "100000"},
    {"bench gemm-rs --rounds 0", "--rounds is 0"},
    {"bench gemm-rs --rounds -5", "--rounds is -5"},
    {"bench gemm-rs --transport pigeon", "pigeon"},
    {"bench gemm-rs --link pigeon", "pigeon"},
    {"bench gemm-rs --link 10gbit,soon", "soon"},
    {"bench gemm-rs --bogus", "--bogus"},
    {"bench gemm-rs --axis --sweep", "--axis"},
    {"bench gemm-rs --svg x.svg", "--svg"},
    {"bench rs --sweep", "--sweep"},
    {"bench gemm-rs --ratios 1,2", "--axis"},
    {"bench gemm-rs --sizes 4K:1M", "--sizes 4K:1M is for a collective alone"},
    {"bench ar --m 8 --n 8 --sizes 4K:1M", "--sizes 4K:1M"},
    {"bench ar --paired 5", "--paired 5"},
    {"bench gemm-rs --paired 0", "--paired is 0"},
    {"bench gemm-rs --sweep --m 64", "--m 64"},
    {"bench gemm-rs --axis --k 64", "--k 64"},
    {"bench gemm-rs --ranks-per-host 0", "--ranks-per-host is 0"},
    {"plan", "--load"},
    {"plan nothing", "nothing"},
    {"plan gemm-rs --zipf nan --root -1", "--zipf is nan"},
    {"plan gemm-rs --zipf 1", "--zipf 1 is for embedding, not for gemm-rs"},
    {"plan gemm-rs --root 0", "--root 0 is for broadcast, not for gemm-rs"},
    {"plan gemm-rs --tables 4", "--tables 4"},
    {"plan gemm-rs --workload dlrm-v2", "--workload dlrm-v2"},
    {"plan gemm-rs --tables-of one-hot", "--tables-of one-hot"},
    {"plan gemm-rs --pool mean", "--pool mean"},
    {"plan gemm-rs --wire-sums bf16", "--wire-sums bf16"},
    {"plan gemm-ag --wire f32", "--wire f32"},
    {"plan embedding-a2a --m 4", "--m 4"},
    {"plan embedding-a2a --weight bf16", "--weight bf16"},
    {"plan embedding-a2a --addend", "--addend"},
    {"plan ar --k 4", "--k 4 is for gemm and gemv, not for ar"},
    {"plan embedding-a2a --zipf inf", "--zipf is inf"},
    {"plan embedding-a2a --zipf 1e999", "--zipf is 1e999"},
    {"plan embedding-a2a --zipf 1x", "1x"},
    {"plan gemm-rs --m 99999999999999999999", "--m is 99999999999999999999"},
    {"plan gemm-rs --m -99999999999999999999", "--m is -99999999999999999999"},
    {"plan gemm-rs --m 0x10", "0x10"},
    {"plan gemm-rs --m +4", "+4"},
    {"plan gemm-rs --ranks 4294967298", "--ranks is 4294967298"},
    {"plan --load /dev/null --m 4", "--m"},
    {"ledger --full", "--workload"},
    {"ledger --workload t-nlg --tokens 5", "--tokens"},
    {"sim t3 --table --layer fc2", "--layer"},
    {"run -n 2 --threads 0 -- true", "--threads is 0"},
    {"run -n 2 --first-rank -1 -- true", "--first-rank is -1"},
    {"run -n 2 --world-size -1 -- true", "--world-size is -1"},
    {"generate --model x --prompt y --ranks-per-host -1", "--ranks-per-host is -1"},
    {"generate --model x --prompt y --seed -1", "--seed is -1"},
    {"generate --model x --prompt y --temperature nan", "--temperature is nan"},
    {"spd ablate --model x --text y --threads 0", "--threads is 0"},
    {"plan gemm-rs --ranks 0", "--ranks is 0"},
    {"plan gemm-rs --ranks 100000", "100000"},
    {"plan gemm-rs --m -1", "--m is -1"},
    {"plan gemm-rs --load /dev/null", "--load"},
    {"plan gemm-ar --ranks 4 --ranks-per-host 5", "--ranks-per-host is 5"},
    {"plan gemm-ar --ranks 4 --ranks-per-host 3 --route two-level", "4 ranks are on hosts of 3"},
    {"plan gemm-ar --ranks 4 --route two-level", "4 ranks are on hosts of 4"},
    {"plan gemm-a2a --ranks 4 --ranks-per-host 2 --route two-level", "all_to_all has no route two_level"},
    {"bench gemm-ar --ranks 4 --ranks-per-host 2", "--link"},
    {"plan --load /no/such/file", "/no/such/file"},
    {"plan --load /dev/null", "/dev/null"},
    {"plan --load /", "/"},
    {"plan gemm-rs --cluster /no/such/file", "/no/such/file"},
    {"plan gemm-rs --cluster /dev/null", "/dev/null"},
    {"plan gemm-rs --save /no/such/folder/plan.json", "/no/such/folder"},
    {"run", "required"},
    {"run -n 2", "program is required"},
    {"run -n 0 -- true", "0"},
    {"run -n -3 -- true", "-3"},
    {"run -n 100000 -- true", "100000"},
    {"run -n 2 -- /no/such/program", "/no/such/program"},
    {"run -n 2 --threads -1 -- true", "--threads is -1"},
    {"info --save /tmp/x.json", "--calibrate"},
    {"info extra", "extra"},
    {"demo --ranks 0", "--ranks is 0"},
    {"demo --ranks many", "many"},
};
INSTANTIATE_TEST_SUITE_P(Cli, BadInput, ::testing::ValuesIn(kBad));

// A variable of a script that was never set: --m "$M".
TEST(Cli, AnEmptyValueIsRefusedByEveryFlag) {
  const std::vector<std::vector<std::string>> flags{{"plan", "gemm-rs", "--m"},
                                                    {"plan", "gemm-rs", "--cluster"},
                                                    {"plan", "gemm-rs", "--wire-sums"},
                                                    {"plan", "--load"},
                                                    {"bench", "gemm-rs", "--rounds"},
                                                    {"bench", "gemm-rs", "--link"},
                                                    {"bench", "ar", "--sizes"},
                                                    {"bench", "embedding-a2a", "--zipf"},
                                                    {"run", "-n", "2", "--rendezvous"},
                                                    {"reshard", "plan", "--case", "1", "--size"},
                                                    {"reshard", "run", "--case", "1", "--seed"},
                                                    {"sim", "t3", "--svg"},
                                                    {"ledger", "--spd"},
                                                    {"generate", "--model"},
                                                    {"eval", "--text"},
                                                    {"cluster", "up", "--rate"}};
  for (std::vector<std::string> words : flags) {
    const std::string flag = words.back();
    words.emplace_back();
    const Ended ended = weft(words);
    EXPECT_EQ(ended.code, 2) << flag << ended.out;
    EXPECT_EQ(ended.err.rfind(fmt::format("weft: {} is \"\"; give ", flag), 0), 0u) << ended.err;
  }
  EXPECT_EQ(weft(std::vector<std::string>{"run", "-n", "1", "--", "true", ""}).code, 0) << "a program's own words";
}

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
  std::ifstream file(path_);
  const std::string svg((std::istreambuf_iterator<char>(file)), {});
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

TEST(Cli, RunPassesExitCodesOn) {
  EXPECT_EQ(weft({"run", "-n", "3", "--", "true"}).code, 0);
  EXPECT_EQ(weft({"run", "-n", "3", "--threads", "2", "--", "sh", "-c", "test $WEFT_SIZE-$WEFT_THREADS = 3-2"}).code,
            0);
  EXPECT_EQ(weft({"run", "-n", "2", "--", "sh", "-c", "exit 2"}).code, 2);
  const Ended failed = weft({"run", "-n", "2", "--", "sh", "-c", "test $WEFT_RANK = 0 || exit 7"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.err, "weft: rank 1 of 2 failed: exited with code 7\n");
  const Ended killed = weft({"run", "-n", "2", "--json", "--", "sh", "-c", "test $WEFT_RANK = 0 || kill -9 $$"});
  EXPECT_EQ(killed.code, 1);
  EXPECT_EQ(Json::parse(killed.out, nullptr, false)["first_failed"], 1) << killed.out;
}

// The ranks of a long benchmark, once all of them are there.
std::vector<pid_t> ranks_of(const Running& running, std::size_t count) {
  std::vector<pid_t> ranks;
  for (int tries = 0; tries < 1000 && ranks.size() < count; ++tries) {
    usleep(10'000);
    ranks = children_of(running.pid);
  }
  usleep(200'000);
  return ranks;
}

const std::vector<std::string> kLong{"bench", "gemm-rs", "--ranks", "3", "--rounds", "100000"};

TEST(Cli, InterruptedBenchLeavesNoProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running running = start_weft(kLong);
    const auto ranks = ranks_of(running, 3);
    ASSERT_EQ(ranks.size(), 3u);
    kill(running.pid, signal);
    const Ended ended = wait_for(running);
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.err.find("interrupted"), std::string::npos) << ended.err;
    for (const pid_t rank : ranks) EXPECT_FALSE(alive(rank));
  }
}

TEST(Cli, KilledRankEndsTheBenchAndIsNamed) {
  const Running running = start_weft(kLong);
  const auto ranks = ranks_of(running, 3);
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGKILL);
  const Ended ended = wait_for(running);
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("failed: killed by signal 9"), std::string::npos) << ended.err;
  for (const pid_t rank : ranks) EXPECT_FALSE(alive(rank));
}

}  // namespace
}  // namespace weft::testing
