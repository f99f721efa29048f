// Numbers of flags: read whole and strictly, within what their variable holds, for every type that commands use.
#include "cli/flag_values.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

#include "cli/op_flags.h"

namespace weft::cli {
namespace {

TEST(FlagValues, WholeNumbersAreReadToTheLastDigit) {
  for (const char* good : {"0", "7", "-3", "100", "-0"}) EXPECT_NO_THROW(check_whole("--m", good, -3, 100)) << good;
  for (const char* bad : {"", "-", "1x", "x1", "+4", " 4", "4 ", "0x10", "1e3", "2.5", "--4"})
    EXPECT_EQ(refusal([&] { check_whole("--m", bad, -3, 100); }),
              std::string("--m is \"") + bad + "\"; give a whole number, in digits");
  EXPECT_EQ(refusal([] { check_whole("--m", "-4", -3, 100); }), "--m is -4; use -3 or more");
  EXPECT_EQ(refusal([] { check_whole("--m", "101", -3, 100); }), "--m is 101; use 100 at most");
  for (const char* huge : {"18446744073709551615", "18446744073709551616", "99999999999999999999999"})
    EXPECT_NE(refusal([&] { check_whole("--m", huge, 0, 100); }).find("use 100 at most"), std::string::npos) << huge;
  EXPECT_NE(refusal([] { check_whole("--m", "-99999999999999999999", 0, 100); }).find("use 0 or more"),
            std::string::npos);
  EXPECT_NO_THROW(check_whole("--seed", "18446744073709551615", 0, UINT64_MAX));
}

TEST(FlagValues, FiniteNumbersAreFinite) {
  for (const char* good : {"0", "0.5", "-1e-3", "1e300", ".5"}) EXPECT_NO_THROW(read_finite("--zipf", good)) << good;
  for (const char* bad : {"", "x", "1x", " 1", "0.5,"})
    EXPECT_NE(refusal([&] { read_finite("--zipf", bad); }).find("give a number"), std::string::npos) << bad;
  for (const char* bad : {"nan", "inf", "-inf", "1e999"})
    EXPECT_NE(refusal([&] { read_finite("--zipf", bad); }).find("give a finite number"), std::string::npos) << bad;
}

// What CLI11 makes of a command line with these flags.
template <typename T>
std::string parsed_as(T* value, const std::vector<std::string>& words, T least = std::numeric_limits<T>::lowest()) {
  CLI::App app;
  add_number(app, "-n,--number", value, "a number", least);
  refuse_empty_values(app);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  return refusal([&] { app.parse(reversed); });
}

TEST(FlagValues, AFlagTakesWhatItsVariableHolds) {
  int small = 0;
  EXPECT_EQ(parsed_as(&small, {"--number", "2147483647"}), "did not throw");
  EXPECT_EQ(small, 2147483647);
  EXPECT_EQ(parsed_as(&small, {"-n", "2147483648"}), "--number is 2147483648; use 2147483647 at most");
  EXPECT_EQ(parsed_as(&small, {"-n", "0"}, 1), "--number is 0; use 1 or more");
  std::uint64_t seed = 0;
  EXPECT_EQ(parsed_as(&seed, {"--number", "18446744073709551615"}), "did not throw");
  EXPECT_EQ(seed, UINT64_MAX);
  EXPECT_EQ(parsed_as(&seed, {"--number=-1"}), "--number is -1; use 0 or more");
  double share = 0;
  EXPECT_EQ(parsed_as(&share, {"--number", "0.25"}), "did not throw");
  EXPECT_EQ(share, 0.25);
  EXPECT_NE(parsed_as(&share, {"--number", ""}).find("--number is \"\"; give"), std::string::npos);
}

OpSpec spec_of(const std::string& op, OpRequest flags = {}) {
  flags.op = op;
  return parse_op(flags, 8);
}

TEST(OpRequest, AnOpHasItsDefaultsAndTheFlagsGoOver) {
  const OpSpec plain = spec_of("gemm-rs");
  EXPECT_EQ(plain.producer.kind, ProducerKind::gemm);
  EXPECT_EQ(plain.producer.m, 1024);
  EXPECT_EQ(plain.producer.k, 512);
  EXPECT_EQ(plain.space.kind, SpaceKind::reduce_scatter);
  EXPECT_EQ(plain.ranks, 2);
  OpRequest flags;
  flags.m = 8, flags.n = 16, flags.k = 4, flags.ranks = 4, flags.weight = "bf16", flags.wire = "bf16";
  const OpSpec own = spec_of("gemm-ar", flags);
  EXPECT_EQ(shape_text(own), "8 x 16 x 4");
  EXPECT_EQ(own.producer.weight, Dtype::bf16);
  EXPECT_EQ(own.ranks, 4);
  EXPECT_TRUE(spec_of("ag-gemm").gathers);
  EXPECT_TRUE(spec_of("ar").alone());
  const OpSpec vector = spec_of("gemv-ar");
  EXPECT_EQ(vector.producer.m, 1);
  EXPECT_EQ(vector.producer.n, 4096);
}

TEST(OpRequest, TablesAreAlikeOnEveryRankUnlessAWorkloadSaysOtherwise) {
  OpRequest flags;
  flags.ranks = 3, flags.tables = 2, flags.rows = 100, flags.pooling = 5, flags.dim = 4, flags.batch = 6;
  const OpSpec spec = spec_of("embedding-a2a", flags);
  ASSERT_EQ(spec.bags.size(), 3u);
  for (const auto& bags : spec.bags) {
    ASSERT_EQ(bags.size(), 2u);
    EXPECT_EQ(bags[0].rows, 100);
    EXPECT_EQ(rows_read(bags), 10);
  }
  EXPECT_EQ(spec.producer.dim, 4);
  EXPECT_DOUBLE_EQ(spec.pooling, 5);
}

TEST(OpRequest, WhatCannotBeIsRefusedWithTheFlagAndTheRemedy) {
  const auto says = [](const std::string& op, const std::function<void(OpRequest*)>& change, const char* part) {
    OpRequest flags;
    change(&flags);
    const std::string text = refusal([&] { spec_of(op, flags); });
    EXPECT_NE(text.find(part), std::string::npos) << op << ": " << text;
  };
  says(
      "gemm-rs", [](OpRequest* f) { f->m = 0; }, "--m is 0; use a whole number from 1");
  says(
      "gemm-rs", [](OpRequest* f) { f->m = 1 << 30, f->n = 1 << 30; }, "make one of them smaller");
  says(
      "gemm-rs", [](OpRequest* f) { f->ranks = 9; }, "--ranks is 9");
  says(
      "gemm-rs", [](OpRequest* f) { f->route = "express"; }, "express");
  says(
      "gemm-rs", [](OpRequest* f) { f->wire = "f99"; }, "f99");
  says(
      "gemm-xs", [](OpRequest*) {}, "gemm-xs");
  says(
      "embedding-a2a", [](OpRequest* f) { f->zipf = 5; }, "--zipf is 5; use 0 (uniform) to 4");
  says(
      "embedding-a2a", [](OpRequest* f) { f->tables_of = "one-hot"; }, "add --workload dlrm-v2");
  says(
      "embedding-a2a", [](OpRequest* f) { f->workload = "dlrm-v2", f->tables = 3; }, "leave them out");
}

}  // namespace
}  // namespace weft::cli
