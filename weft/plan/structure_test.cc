// Indices and sizes that point nowhere: each is one sentence before anything follows it.
#include "weft/plan/structure.h"

#include <functional>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/plan/program.h"
#include "weft/plan/small_plans_test.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing::e;
using testing::pair_plan;

struct Pointless {
  const char* says;
  std::function<void(Plan&)> spoil;
};

std::vector<Pointless> wrong_parts() {
  return {
      {"for 0 ranks", [](Plan& p) { p.num_ranks = 0; }},
      {"for 65537 ranks", [](Plan& p) { p.num_ranks = 65537; }},
      {"rows (m) of copy is -1", [](Plan& p) { p.producers[0].m = -1; }},
      {"columns (n) of copy is", [](Plan& p) { p.producers[0].n = INT64_MAX; }},
      {"depth (k) of copy is", [](Plan& p) { p.producers[0].k = INT64_MIN; }},
      {"tile's rows of copy is -4", [](Plan& p) { p.producers[0].tile[0] = -4; }},
      {"given for 1 ranks, but there are 2", [](Plan& p) { p.producers[0].n_of = {8}; }},
      {"columns of a rank of copy is -8",
       [](Plan& p) {
         p.producers[0].n_of = {8, -8};
       }},
      {"buffer \"inbox\" has depth 0", [](Plan& p) { p.buffers[0].depth = 0; }},
      {"buffer \"inbox\" has depth 65", [](Plan& p) { p.buffers[0].depth = 65; }},
      {"buffer \"inbox\" has 0 dimensions", [](Plan& p) { p.buffers[0].shape.clear(); }},
      {"buffer \"inbox\" has 7 dimensions", [](Plan& p) { p.buffers[0].shape.assign(7, 1); }},
      {"tile's rows of inbox is -2", [](Plan& p) { p.buffers[0].packing.tile_rows = -2; }},
      {"packed in tiles of 0 x 4", [](Plan& p) { p.buffers[0].packing.tile_rows = 0; }},
  };
}

std::vector<Pointless> wrong_rules() {
  return {
      {"tile's columns of send is -1", [](Plan& p) { p.rules[0].tile[1] = -1; }},
      {"names buffer 2 of 2", [](Plan& p) { p.rules[0].targets[0].buffer = 2; }},
      {"names buffer -1 of 2", [](Plan& p) { p.rules[1].sources[0].buffer = -1; }},
      {"names buffer 9 of 2", [](Plan& p) { p.rules[1].reads = {piece(9, testing::rows("0", "4"))}; }},
      {"another number of dimensions, 1",
       [](Plan& p) {
         p.rules[0].targets[0].box = {{0}, {4}};
       }},
      {"box of 2 lower and 1 upper bounds", [](Plan& p) { p.rules[0].targets[0].box.hi.pop_back(); }},
      {"box of 1 lower and 2 upper bounds", [](Plan& p) { p.rules[0].box.lo.pop_back(); }},
      {"waits for counter 3", [](Plan& p) { p.rules[0].waits[0].counter = 3; }},
      {"waits for counter -1", [](Plan& p) { p.rules[0].waits[0].counter = -1; }},
      {"with lag -1", [](Plan& p) { p.rules[0].waits[0].lag = -1; }},
      {"with lag 65", [](Plan& p) { p.rules[0].waits[0].lag = 65; }},
      {"signals counter 3 of 3", [](Plan& p) { p.rules[0].signals[0].counter = 3; }},
      {"signals counter -1 of 3", [](Plan& p) { p.rules[0].signals[0].counter = -1; }},
      {"step \"send\" needs a producer", [](Plan& p) { p.rules[0].producer = -1; }},
      {"step \"send\" needs a producer", [](Plan& p) { p.rules[0].producer = 1; }},
      {"step \"send\" needs a producer", [](Plan& p) { p.rules[0].box = {}; }},
      {"names producer 1 of 1", [](Plan& p) { p.rules[2].producer = 1; }},
      {"names producer -2 of 1", [](Plan& p) { p.rules[2].producer = -2; }},
      {"no producer whose epilogue",
       [](Plan& p) {
         p.rules[2].finish = e("r"), p.producers.clear(), p.rules.erase(p.rules.begin(), p.rules.begin() + 2);
       }},
  };
}

std::vector<Pointless> wrong_promises() {
  return {
      {"a piece of buffer 2 of 2", [](Plan& p) { p.owed[0].piece.buffer = 2; }},
      {"tiles of producer 1", [](Plan& p) { p.owed[0].leaf = 1; }},
      {"tiles of buffer 2", [](Plan& p) { p.owed[0].leaf = -3; }},
      {"tiles of buffer 2147483647", [](Plan& p) { p.owed[0].leaf = INT32_MIN; }},
      {"from an origin of 1", [](Plan& p) { p.owed[0].origin.pop_back(); }},
      {"owes finished elements",
       [](Plan& p) { p.rules.clear(), p.producers.clear(), p.owed[0].leaf = -1, p.owed[0].finished = true; }},
  };
}

void expect_all_refused(const std::vector<Pointless>& list) {
  for (const Pointless& one : list) {
    Plan plan = pair_plan();
    one.spoil(plan);
    for (const auto& call : std::vector<std::function<void()>>{[&] { Expander expander(plan); }, [&] { verify(plan); }})
      EXPECT_NE(refusal(call).find(one.says), std::string::npos) << refusal(call) << "\n  does not say " << one.says;
  }
}

TEST(Structure, PartsOfImpossibleSizesAreRefused) { expect_all_refused(wrong_parts()); }
TEST(Structure, RulesThatNameWhatIsNotThereAreRefused) { expect_all_refused(wrong_rules()); }
TEST(Structure, PromisesOfWhatIsNotThereAreRefused) { expect_all_refused(wrong_promises()); }

// What only an evaluated rule shows.
TEST(Structure, ValuesThatArithmeticCannotHoldAreRefused) {
  const std::vector<Pointless> list = {
      {"of more than 1099511627776 elements",
       [](Plan& p) {
         p.rules[2].box = {{0, 0}, {1 << 30, 1 << 30}};
       }},
      {"orders 1 lanes by", [](Plan& p) { p.rules[2].order = INT64_MIN; }},
      {"orders 1 lanes by", [](Plan& p) { p.rules[2].order_step = INT64_MAX; }},
      {"turned round or negative",
       [](Plan& p) {
         p.rules[2].box = {{4}, {3}};
       }},
      {"shares a counter among -1 lanes", [](Plan& p) { p.rules[2].waits[0].per = -1; }},
      {"limiting rank 2", [](Plan& p) { p.rules[0].limit = Limit::peer, p.rules[0].limit_peer = 2; }},
      {"contributing rank -1", [](Plan& p) { p.owed[0].first = -1; }},
      {"a sum over 3 of 2 ranks", [](Plan& p) { p.owed[0].contributors = 3; }},
      {"leaves the 64-bit range", [](Plan& p) { p.counters[0].count = e("9223372036854775807 + r + 1"); }},
      {"counter \"full\" has -4 instances", [](Plan& p) { p.counters[0].count = -4; }},
      {"grows by 2147483648 per run", [](Plan& p) { p.counters[0].total = std::int64_t{1} << 31; }},
  };
  for (const Pointless& one : list) {
    Plan plan = pair_plan();
    one.spoil(plan);
    const std::string said = refusal([&] { require_runnable(plan); });
    EXPECT_NE(said.find(one.says), std::string::npos) << said << "\n  does not say " << one.says;
  }
}

}  // namespace
}  // namespace weft
