#include "weft/study/contest_memory.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/study/input/inputs.h"

namespace weft {
namespace {

OpSpec gemm_rs(std::int64_t m) {
  OpSpec spec{.name = "gemm-rs", .producer = gemm({.m = m, .n = 64, .k = 32}), .ranks = 2};
  spec.space = reduce_scatter(Mesh({{"tp", 2}}), "tp");
  return spec;
}

TEST(ContestMemory, HoldsInputsAndTheOpsOfEveryStyle) {
  const OpSpec spec = gemm_rs(256);
  const double output = 256 * 64 * 4;
  EXPECT_GT(contest_bytes(spec), RankInputs::bytes(spec) + 3 * output);
  EXPECT_GT(contest_bytes(gemm_rs(512)), contest_bytes(spec));
  EXPECT_GT(contest_bytes(spec), contest_bytes(producer_alone(spec)));
  EXPECT_NO_THROW(check_memory(spec));
}

TEST(ContestMemory, MoreThanIsFreeIsRefusedWithTheShape) {
  try {
    check_memory(gemm_rs(std::int64_t{1} << 31));
    ADD_FAILURE() << "it fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::no_memory);
    EXPECT_NE(std::string(error.what()).find("2147483648 x 64 x 32"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft
