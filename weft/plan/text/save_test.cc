#include "weft/plan/text/save.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/program.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using namespace testing_plans;  // NOLINT: the plans under test
using Json = nlohmann::json;

// A program as text, so that two can be compared.
std::string spelled(const Program& program) {
  std::string out;
  for (const Action& a : program.actions) {
    out += fmt::format("{} {} {} {} {} {}x{} {} {} {} {} {} {}\n", static_cast<int>(a.kind), a.rule, a.s, a.producer,
                       to_string(a.box), a.tile[0], a.tile[1], a.lanes, a.finish, static_cast<int>(a.limit),
                       a.limit_peer, a.order, a.order_step);
    for (const Wait& w : program.of(a)) out += fmt::format(" w {} {} {} {}\n", w.counter, w.at, w.lag, w.per);
    for (const auto list : {program.reads(a), program.sources(a), program.targets(a)})
      for (const Piece& p : list) out += fmt::format(" p {} {} {}\n", p.rank, p.buffer, to_string(p.box));
    for (const Signal& g : program.signals_of(a)) out += fmt::format(" g {} {} {}\n", g.rank, g.counter, g.per);
  }
  return out;
}

TEST(SavePlan, ComesBackExactly) {
  for (const int ranks : {2, 3, 5})
    for (const Plan& plan : all_plans(ranks)) {
      const std::string text = to_json(plan);
      const Plan back = parse_plan(text, "plan.json");
      EXPECT_EQ(to_json(back), text);
      const Expander one(plan), two(back);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(spelled(one.program(rank)), spelled(two.program(rank))) << plan.name;
        EXPECT_EQ(one.num_counters(rank), two.num_counters(rank));
      }
      EXPECT_TRUE(verify(back).ok()) << plan.name;
    }
}

TEST(SavePlan, KeepsProducersAndDefaults) {
  Plan plan = build_keep(validated(gemm({.m = 9,
                                         .n = 8,
                                         .k = 7,
                                         .weight = Dtype::bf16,
                                         .addend = true,
                                         .bias = true,
                                         .residual = true,
                                         .activation = Activation::gelu}),
                                   1),
                         1);
  plan.sum = Sum::any;
  plan.why = "because \"quotes\" and\nlines survive";
  plan.buffers[0].depth = 2;
  const Plan back = parse_plan(to_json(plan), "x");
  EXPECT_EQ(back.producers[0].activation, Activation::gelu);
  EXPECT_EQ(back.producers[0].weight, Dtype::bf16);
  EXPECT_TRUE(back.producers[0].addend && back.producers[0].bias && back.producers[0].residual);
  EXPECT_EQ(back.sum, Sum::any);
  EXPECT_EQ(back.why, plan.why);
  EXPECT_EQ(back.buffers[0].depth, 2);
}

TEST(SavePlan, WritesAWholeFileOrNone) {
  const std::string path = ::testing::TempDir() + "/weft_save_test.json";
  const Plan plan = all_plans(3)[0];
  save_plan(plan, path);
  EXPECT_EQ(to_json(load_plan(path)), to_json(plan));
  save_plan(plan, path);  // over the old one
  std::remove(path.c_str());
  EXPECT_THROW(save_plan(plan, ::testing::TempDir() + "/no/such/folder/x.json"), Error);
  EXPECT_NE(refusal([&] { load_plan(path); }).find(path), std::string::npos);
}

// Sets one value of a good plan to another and tells what the reader says.
std::string with(const char* pointer, const Json& value) {
  Json json = Json::parse(to_json(all_plans(3)[0]));
  json[Json::json_pointer(pointer)] = value;
  return refusal([&] { parse_plan(json.dump(), "p.json"); });
}

TEST(LoadPlan, RefusalsNameFileAndField) {
  const auto says = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  };
  says(with("/format", 3), {"p.json", "format 3", "formats 1 to 2"});
  says(with("/format", 0), {"p.json", "format 0", "formats 1 to 2"});
  says(with("/ranks", 0), {"p.json", "ranks"});
  says(with("/ranks", 1e300), {"p.json", "ranks"});
  says(with("/ranks", "4"), {"p.json", "ranks"});
  says(with("/extra", 1), {"p.json", "extra"});
  says(with("/rules/0/waits/0/counter", "nobody"), {"p.json", "rules[0]", "waits[0]", "nobody"});
  says(with("/rules/0/sources/0/buffer", "nobody"), {"p.json", "sources[0]", "nobody"});
  says(with("/rules/0/sources/0/box", Json::array({"1;2"})), {"p.json", "box[0]", "lo:hi"});
  says(with("/rules/0/count", "N *"), {"p.json", "rules[0]", "count"});
  says(with("/rules/0/count", 1.5), {"p.json", "rules[0]", "count"});
  says(with("/rules/0/kind", "leap"), {"p.json", "rules[0]", "leap", "step, trigger"});
  says(with("/rules/0/let/0", "no equals sign"), {"p.json", "let[0]", "name = expression"});
  says(with("/rules/0/let/1", "i = 1"), {"p.json", "two lets named \"i\""});
  says(with("/rules/0/waits/0/at", "9223372036854775807 + 1"), {"p.json", "waits[0]", "64-bit"});
  says(with("/rules/0/limit", "sky"), {"p.json", "limit", "sky"});
  says(with("/params/0", "N = 3"), {"p.json", "meaning of its own"});
  says(with("/params/0", "m = r"), {"p.json", "no number"});
  says(with("/params/1", "m = 4"), {"p.json", "two parameters"});
  says(with("/buffers/1/name", "inbox"), {"p.json", "two buffers"});
  says(with("/buffers/0/role", "hero"), {"p.json", "buffers[0]", "hero"});
  says(with("/buffers/0/depth", 1000), {"p.json", "buffers[0]", "depth"});
  says(with("/producers/0/tile", Json::array({1})), {"p.json", "producers[0]", "tile"});
  says(with("/producers/0/m", -4), {"p.json", "producers[0]", "m is -4"});
  says(with("/owed/0/producer", 7), {"p.json", "owed[0]", "producer"});
  says(with("/rules", Json::array_t(5000, Json::object())), {"p.json", "rules", "4096"});
}

TEST(LoadPlan, SurvivesTextThatIsNoPlan) {
  const std::string text = to_json(all_plans(3)[0]);
  for (std::size_t length = 0; length + 3 < text.size(); length += 37)
    refusal([&] { parse_plan(std::string_view(text).substr(0, length), "cut.json"); });
  for (const char* bad : {"", "null", "[]", "1", "\"x\"", "{}", "{\"format\": NaN}", "{\"format\": 1}", "\xff\xfe",
                          "{\"format\": 99999999999999999999999}"})
    EXPECT_NE(refusal([&] { parse_plan(bad, "bad.json"); }).find("bad.json"), std::string::npos);
  EXPECT_NE(refusal([&] { parse_plan(std::string(100000, '['), "deep.json"); }).find("deep.json"), std::string::npos);
  Json deep = Json::parse(text);
  deep["rules"][0]["count"] = std::string(3000, '(') + "1" + std::string(3000, ')');
  refusal([&] { parse_plan(deep.dump(), "deep.json"); });
}

// Parses and proves; anything but a verdict or bad_input fails the test.
void digest(const std::string& text, std::array<int, 3>* outcomes) {
  try {
    const Plan plan = parse_plan(text, "fuzz.json");
    ++(*outcomes)[verify(plan).ok() ? 0 : 1];
  } catch (const Error& error) {
    ++(*outcomes)[2];
    EXPECT_EQ(error.code(), Code::bad_input) << error.what() << "\n" << text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::string bytes(std::string text) {
    static const std::string kBytes = "0123456789rNsjim+-*/%()[]{}\",: <>=&.\\\x80";
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t at = below(text.size()), length = std::min(text.size() - at, 1 + below(8));
      switch (below(4)) {
        case 0:
          text[at] = kBytes[below(kBytes.size())];
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, 1, kBytes[below(kBytes.size())]);
          break;
        default:
          text.insert(below(text.size()), text.substr(at, length));
      }
      if (text.empty()) text = "{";
    }
    return text;
  }

  std::string structure(Json json) {
    for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
      Json* at = &json;
      while (at->is_structured() && !at->empty() && below(8) != 0) {
        auto it = at->begin();
        std::advance(it, below(at->size()));
        at = &*it;
      }
      if (at->is_structured() && !at->empty() && below(2) == 0) {
        auto it = at->begin();
        std::advance(it, below(at->size()));
        if (at->is_array() && below(2) == 0)
          at->push_back(*it);
        else
          at->erase(it);
      } else {
        *at = value();
      }
    }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  Json value() {
    static const std::vector<Json> kValues = {0,
                                              1,
                                              2,
                                              -1,
                                              3,
                                              7,
                                              1000,
                                              65536,
                                              2147483647,
                                              4294967296,
                                              INT64_MAX,
                                              INT64_MIN,
                                              1.5,
                                              nullptr,
                                              true,
                                              "",
                                              "r",
                                              "N",
                                              "s",
                                              "j",
                                              "N - 1",
                                              "1 / 0",
                                              "s % 0",
                                              "N * 9223372036854775807",
                                              "0:m",
                                              "0:0",
                                              "5:1",
                                              "0:9999999999",
                                              "m",
                                              "y",
                                              "inbox",
                                              "full",
                                              "step",
                                              "trigger",
                                              "i = 0",
                                              "c = r",
                                              "x = 1000000",
                                              "cut(1, 0, 0)",
                                              Json::array(),
                                              Json::object(),
                                              "s * 1000"};
    return kValues[below(kValues.size())];
  }
  std::mt19937 random_;
};

TEST(LoadPlan, MutatedPlansAreProvedOrRefused) {
  std::vector<std::string> texts;
  for (const int ranks : {2, 3})
    for (const Plan& plan : all_plans(ranks, 11, 9)) texts.push_back(to_json(plan));
  std::vector<Json> trees;
  for (const std::string& text : texts) trees.push_back(Json::parse(text));
  Mutator mutator(20260101);
  std::array<int, 3> outcomes{};  // proved, refuted, refused
  const auto begin = std::chrono::steady_clock::now();
  double slowest = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::size_t which = mutator.below(texts.size());
    const auto start = std::chrono::steady_clock::now();
    digest(round % 2 ? mutator.bytes(texts[which]) : mutator.structure(trees[which]), &outcomes);
    const auto end = std::chrono::steady_clock::now();
    slowest = std::max(slowest, std::chrono::duration<double>(end - start).count());
    if (end - begin > std::chrono::seconds(20)) break;
  }
  RecordProperty("slowest_ms", static_cast<int>(slowest * 1000));
  EXPECT_GT(outcomes[0], 20);
  EXPECT_GT(outcomes[1], 20);
  EXPECT_GT(outcomes[2], 20);
}

// Plans that read well but would fill the memory or never end.
TEST(LoadPlan, GreedyPlansAreRefusedSoon) {
  const std::vector<std::pair<const char*, Json>> changes = {
      {"/ranks", 65536},
      {"/rules/0/count", "9223372036854775807"},
      {"/rules/0/count", 33554431},
      {"/rules/0/waits/0/each", 33554431},
      {"/rules/0/targets/0/each", "N * 99999999"},
      {"/rules/0/box", Json::array({"0:1099511627776", "0:1099511627776"})},
      {"/rules/0/box", Json::array({"0:5000", "0:5000"})},
      {"/counters/0/count", 33554433},
      {"/counters/0/total", "i * 9223372036854775807"},
      {"/owed/0/count", 33554431},
      {"/owed/0/count", "N * 4000000"},
      {"/owed/0/contributors", 4294967297},
      {"/owed/0/piece/box", Json::array({"0:1099511627776", "0:1099511627776"})},
      {"/buffers/0/shape", Json::array({"1099511627776", "1099511627776"})},
  };
  for (const auto& [pointer, value] : changes) {
    Json json = Json::parse(to_json(all_plans(3)[0]));
    json[Json::json_pointer(pointer)] = value;
    const auto begin = std::chrono::steady_clock::now();
    std::array<int, 3> outcomes{};
    digest(json.dump(), &outcomes);
    EXPECT_EQ(outcomes[0], 0) << pointer << " " << value;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 60) << pointer << " " << value;
  }
}

}  // namespace
}  // namespace weft
