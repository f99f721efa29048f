// What holds for every command (help, an example, --json, no empty values), and `weft info`.
#include <unistd.h>

#include <cstdlib>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/transport/join/pmix_job.h"
#include "weft/transport/wire/wire_kind.h"

#include "tests/cli/cli_file.h"
#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kCommands{"ledger", "demo",    "bench",    "plan", "run", "reshard",
                                         "sim",    "cluster", "generate", "eval", "spd", "info"};

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

}  // namespace
}  // namespace weft::testing
