// The command line is a contract: exit code 2 and one sentence that names the value, for everything that cannot be.
#include <algorithm>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

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
    {"bench gemm-rs --axis --save plan.json", "--save plan.json"},
    {"bench ar --save plan.json", "--save plan.json"},
    {"bench ar --m 8 --n 8 --save-collective plan.json", "--save-collective plan.json"},
    {"bench gemm-rs --save /no/such/folder/plan.json", "/no/such/folder"},
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

}  // namespace
}  // namespace weft::testing
