// spin searches every timing of a few tiny plans, and must agree with verify(): nothing wrong with what
// builders write, an error in what has lost a credit or a signal, waits in a circle, or writes two things to
// one place.
#include "tests/promela.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/plan/program.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

bool found(const char* program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  return pclose(pipe) == 0 ? out : out + "\n(command failed)";
}

class Promela : public testing::Test {
 protected:
  void SetUp() override {
    if (!found("spin") || !found("cc")) GTEST_SKIP() << "spin or a C compiler is not installed";
    std::string pattern = (std::filesystem::temp_directory_path() / "weft_promela_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // "" where the search ended and found nothing.
  std::string judge(const Plan& plan, int runs = 2) {
    std::ofstream(folder_ / "plan.pml") << to_promela(plan, runs);
    const std::string text =
        output_of(fmt::format("cd {} && spin -a plan.pml 2>&1 && cc -O0 -w -DSAFETY -DMEMLIM=2000 -o pan pan.c 2>&1 && "
                              "timeout 60 ./pan -m200000 2>&1",
                              folder_.string()));
    if (text.find("max search depth too small") != std::string::npos || text.find("out of memory") != std::string::npos)
      return "the search did not end:\n" + text;
    return text.find("errors: 0") != std::string::npos ? "" : text;
  }

  // By both, and by spin for that reason.
  void expect_refused(const Plan& plan, const char* reason) {
    EXPECT_FALSE(verify(plan).ok()) << plan.name;
    const std::string text = judge(plan);
    EXPECT_NE(text.find(reason), std::string::npos) << plan.name << ": " << text;
  }

  std::filesystem::path folder_;
};

Space space_of(int num_ranks) {
  Space space;
  space.kind = SpaceKind::all_reduce;
  space.mesh = Mesh({{"tp", num_ranks}});
  space.axis = "tp";
  return space;
}

// Chunks of that many tiles.
Producer tiles(int num_ranks, int each) {
  return validated(copy({.rows = num_ranks * each, .cols = 1, .tile = {1, 1}}), num_ranks);
}

std::vector<Plan> small_plans() {
  const Space two = space_of(2), three = space_of(3);
  const Producer row = validated(copy({.rows = 1, .cols = 1, .tile = {1, 1}}), 2);
  const Producer product = validated(gemm({.m = 1, .n = 1, .k = 1, .tile = {1, 1}}), 2);
  return {build_reduce_scatter(tiles(2, 2), two, Route::ring),
          build_reduce_scatter(tiles(3, 1), three, Route::direct),
          build_all_reduce(tiles(2, 2), two, Route::ring),
          build_all_reduce(tiles(2, 1), two, Route::two_shot),
          build_all_reduce(tiles(2, 1), two, Route::one_shot),
          build_all_gather(row, three, Route::ring),
          build_all_gather(row, two, Route::direct),
          build_all_to_all(tiles(3, 1), three),
          build_broadcast(row, three),
          build_gather_gemm(product, two, Route::ring),
          build_two_level_broadcast(row, space_of(4), 2)};
}

TEST_F(Promela, FindsNothingWrongWithWhatBuildersWrite) {
  for (const Plan& plan : small_plans()) {
    EXPECT_TRUE(verify(plan).ok()) << plan.name;
    EXPECT_EQ(judge(plan), "") << plan.name << ", " << plan.num_ranks << " ranks";
  }
}

TEST_F(Promela, SearchesThreeRunsOfARing) {
  EXPECT_EQ(judge(build_reduce_scatter(tiles(3, 1), space_of(3), Route::ring), 3), "");
}

Plan without_credits(Plan plan) {
  for (Rule& rule : plan.rules) std::erase_if(rule.waits, [](const WaitRule& w) { return w.lag > 0; });
  return plan;
}

TEST_F(Promela, AgreesThatCreditsAreNeeded) {
  const Producer product = validated(gemm({.m = 1, .n = 1, .k = 1, .tile = {1, 1}}), 2);
  for (const Plan& plan : {build_reduce_scatter(tiles(2, 1), space_of(2), Route::ring),
                           build_reduce_scatter(tiles(3, 1), space_of(3), Route::direct),
                           build_all_reduce(tiles(2, 1), space_of(2), Route::one_shot),
                           build_gather_gemm(product, space_of(2), Route::direct)})
    expect_refused(without_credits(plan), "assertion violated");
}

// An all-reduce is over when every owner's sum has come, and owners sum behind their reads: nothing can go
// wrong without credits. verify() refuses it all the same, since it infers nothing through third ranks.
TEST_F(Promela, AllowsAnAllReduceToSpareItsCreditsWhereVerifyIsLocal) {
  const Plan plan = without_credits(build_all_reduce(tiles(2, 1), space_of(2), Route::two_shot));
  EXPECT_FALSE(verify(plan).ok());
  EXPECT_EQ(judge(plan), "");
}

TEST_F(Promela, AgreesThatEverySignalIsNeeded) {
  for (const Plan& plan :
       {build_reduce_scatter(tiles(2, 1), space_of(2), Route::ring),
        build_all_gather(tiles(2, 1), space_of(2), Route::direct), build_all_to_all(tiles(2, 1), space_of(2))})
    for (std::size_t r = 0; r < plan.rules.size(); ++r)
      for (std::size_t i = 0; i < plan.rules[r].signals.size(); ++i) {
        Plan mutant = plan;
        mutant.rules[r].signals.erase(mutant.rules[r].signals.begin() + static_cast<std::ptrdiff_t>(i));
        expect_refused(mutant, "invalid end state");
      }
}

TEST_F(Promela, AgreesThatReadsWaitForTheirWriters) {
  Plan ring = build_reduce_scatter(tiles(2, 1), space_of(2), Route::ring);
  std::erase_if(ring.rules[0].waits, [&](const WaitRule& w) { return w.counter == ring.counter("full"); });
  expect_refused(ring, "assertion violated");
  Plan gather = build_all_gather(tiles(2, 1), space_of(2), Route::direct);
  gather.rules.back().waits.clear();  // the caller reads before the others' rows have come
  expect_refused(gather, "assertion violated");
}

TEST_F(Promela, AgreesThatACircleOfWaitsNeverEnds) {
  Plan ring = build_reduce_scatter(tiles(2, 1), space_of(2), Route::ring);
  ring.rules[0].waits.push_back({ring.counter("used"), 0, 1});
  expect_refused(ring, "invalid end state");
  Plan gather = build_all_gather(tiles(2, 1), space_of(2), Route::ring);
  gather.rules[0].waits.push_back({gather.counter("got"), (Expr::name("r") + 1) % 2 * Expr::name("slot"), 1});
  expect_refused(gather, "invalid end state");
}

TEST_F(Promela, AgreesThatSlotsHaveOneWriter) {
  Plan plan = written_out(build_reduce_scatter(tiles(3, 1), space_of(3), Route::direct), true);
  std::vector<PieceRule*> inboxes;  // of rank 2
  for (Rule& rule : plan.rules)
    for (PieceRule& piece : rule.targets)
      if (piece.buffer == plan.buffer("inbox") && piece.rank.is_number(2)) inboxes.push_back(&piece);
  ASSERT_EQ(inboxes.size(), 2u);
  inboxes[0]->box = inboxes[1]->box;
  expect_refused(plan, "assertion violated");
}

TEST(PromelaText, RefusesWhatSpinCannotSearch) {
  EXPECT_THROW(to_promela(build_all_reduce(tiles(4, 16), space_of(4), Route::one_shot)), Error);
  Plan deep = build_reduce_scatter(tiles(2, 1), space_of(2), Route::ring);
  deep.buffers[0].depth = 2;
  EXPECT_THROW(to_promela(deep), Error);
}

}  // namespace
}  // namespace weft
