#include "weft/plan/text/print.h"

#include <algorithm>
#include <sstream>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/plan/plans_test.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

using namespace testing_plans;  // NOLINT: the plans under test

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST(PrintPlan, FitsAPageAndItsWidth) {
  for (const int ranks : {2, 4})
    for (Plan plan : all_plans(ranks)) {
      plan.why = std::string(300, 'w') + " and more words, so that this reason takes more than one line";
      const auto page = lines(print(plan));
      const bool two_level = plan.name.find("two_level") != std::string::npos;  // it has a word for hosts in every line
      EXPECT_LT(page.size(), two_level ? 120u : 90u) << plan.name;
      for (const std::string& line : page) {
        EXPECT_TRUE(line.size() <= 110 || line.find("www") != std::string::npos) << line;
        EXPECT_FALSE(!line.empty() && line.back() == ' ') << line;
      }
    }
}

TEST(PrintPlan, IsTheSamePageWhateverTheSize) {
  const auto page = [](int ranks, std::int64_t m) {
    const Producer p = validated(gemm({.m = m, .n = m, .k = 64, .tile = {16, 16}}), ranks);
    return lines(print(build_reduce_scatter(p, space_of(ranks, SpaceKind::reduce_scatter), Route::ring)));
  };
  const auto small = page(4, 64), tiles = page(4, 16384), ranks = page(1024, 4096);
  EXPECT_EQ(small.size(), tiles.size());
  EXPECT_LE(ranks.size(), small.size());
  const auto rules = [](const std::vector<std::string>& page) {
    const auto begin =
        std::find_if(page.begin(), page.end(), [](const std::string& l) { return l.rfind("step", 0) == 0; });
    return std::vector<std::string>(begin, std::find(begin, page.end(), "owed to rank r"));
  };
  EXPECT_EQ(rules(small), rules(tiles));
  EXPECT_EQ(rules(small), rules(ranks));
}

TEST(PrintPlan, ReadsAsAPersonWouldSayIt) {
  const Producer p = validated(gemm({.m = 4096, .n = 4096, .k = 1024, .bias = true}), 4);
  EXPECT_EQ(print(build_all_gather(p, space_of(4, SpaceKind::all_gather), Route::ring)),
            R"(plan "gemm all_gather ring" for 4 ranks, sums in listed order
  makes  gemm 4096 x 4096 x 1024, tiles 64 x 64, bias
  with   m=4096, n=4096, tm=64, tn=64, cols=64, slot=4096

  buffer  role    type  rank 0        bytes   shape of rank r
  y       output  f32   16384 x 4096  268 MB  N * m, n

  counter  rank 0  how many  grows in a run by
  open     1       1         1
  got      16384   N * slot  1

trigger open
  signal  open  at (r - 1) % N

step make
  wait    open >= 1
  make    [0:m, 0:n] in lanes of 64 x 64, up to the rows of the run
  finish  apply the epilogue
  store   y[r * m:r * m + m, 0:n]  here
  store   y[r * m:r * m + m, 0:n]  at (r + 1) % N
  signal  got[r * slot + lane]     at (r + 1) % N

trigger gather  for s < N - 1
  let     c = (r - 1 - s) % N
  wait    got[c * slot + lane] >= 1
  wait    open >= 1                                  if s < N - 2
  add     y[c * m:c * m + m, 0:n]                    if s < N - 2
  move    [0:m, 0:n] in lanes of 64 x 64, up to the rows of the run
  store   y[c * m:c * m + m, 0:n]    at (r + 1) % N  if s < N - 2
  signal  got[c * slot + lane]       at (r + 1) % N  if s < N - 2

owed to rank r
  y[s * m:s * m + m, 0:n]  for s < N
    = the output at [0, 0] of rank s, then the epilogue

rank 0  1 step of 4096 tiles    4 triggers   67.1 MB stored on the spot  201 MB sent
all     4 steps of 16384 tiles  16 triggers  268 MB stored on the spot   805 MB sent
)");
}

TEST(PrintPlan, CutsListsThatWouldNotFit) {
  const Plan plan = written_out(all_plans(4)[0], true);
  ASSERT_GT(plan.rules.size(), 100u);
  const std::string page = print(plan);
  EXPECT_NE(page.find(fmt::format("... and {} more rules", plan.rules.size() - 48)), std::string::npos);
}

}  // namespace
}  // namespace weft
