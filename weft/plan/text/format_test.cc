// What format 2 of plans says that format 1 left to names and to the reader's knowledge; and that format 1 still loads.
#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using namespace testing_plans;  // NOLINT: the plans under test

Plan ring_plan() { return all_plans(3)[0]; }  // gemm reduce_scatter ring

Json saved(const Plan& plan) { return Json::parse(to_json(plan)); }

// The same plan as format 1 said it.
Json in_format_1(const Plan& plan) {
  Json json = saved(plan);
  json["format"] = 1;
  for (const char* key : {"route", "outputs"}) json.erase(key);
  for (Json& producer : json["producers"]) {
    if (producer.contains("w") && producer["w"] != "f32") producer["weight"] = producer["w"];
    for (const char* key : {"x", "w", "y", "layout"}) producer.erase(key);
  }
  if (json.contains("counters"))
    for (Json& counter : json["counters"]) counter.erase("purpose");
  return json;
}

Plan without_route(Plan plan) {
  plan.route.reset();
  return plan;
}

TEST(LoadPlan, ReadsFormat1AsTodaysPlans) {
  std::set<std::string> today;
  for (const Plan& plan : all_plans(4)) today.insert(to_json(without_route(plan)));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE "/tests/plans/format-1")) {
    const Plan plan = load_plan(entry.path());
    EXPECT_EQ(load_json(entry.path())["format"], 1);
    EXPECT_FALSE(plan.route);
    EXPECT_TRUE(today.count(to_json(plan))) << entry.path() << " is no plan of today:\n" << to_json(plan);
    EXPECT_TRUE(verify(plan).ok()) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, today.size());
}

TEST(LoadPlan, FormatsDifferInTheRouteAlone) {
  for (const int ranks : {2, 3})
    for (const Plan& plan : all_plans(ranks)) {
      const Plan old = parse_plan(in_format_1(plan).dump(), "old.json");
      EXPECT_EQ(to_json(old), to_json(without_route(plan)));
    }
  Producer p = small_gemm(9, 8, 7, 2);
  p.weight = Dtype::bf16;
  EXPECT_EQ(parse_plan(in_format_1(build_keep(p, 2)).dump(), "old.json").producers[0].weight, Dtype::bf16);
}

// In format 1 the names "open" and "credit" mean purposes, numbered or not, and no other name does.
TEST(LoadPlan, Format1TakesPurposesFromNames) {
  const auto purpose = [](const char* name) {
    Json json = in_format_1(ring_plan());
    json["counters"].push_back({{"name", name}, {"total", 0}});
    return parse_plan(json.dump(), "old.json").counters.back().purpose;
  };
  EXPECT_EQ(purpose("open"), Purpose::open);
  EXPECT_EQ(purpose("credit.2"), Purpose::credit);
  EXPECT_EQ(purpose("open.17"), Purpose::open);
  for (const char* name : {"opened", "open2", "y.open", "credit.full", "done", "credit."})
    EXPECT_EQ(purpose(name), Purpose::data) << name;
}

TEST(SavePlan, NamesRoutePurposesOperandsAndOutputs) {
  const Json json = saved(ring_plan());
  EXPECT_EQ(json["format"], 2);
  EXPECT_EQ(json["route"], "ring");
  EXPECT_EQ(json["outputs"], Json::array({"y"}));
  std::vector<std::string> purposes;
  for (const Json& counter : json["counters"]) purposes.push_back(counter["purpose"]);
  EXPECT_EQ(purposes, (std::vector<std::string>{"data", "data", "credit"}));
  EXPECT_FALSE(saved(all_plans(3).back()).contains("route"));  // ring, then direct

  const auto operands = [](const Producer& p) {
    const Json producer = saved(build_keep(validated(p, 1), 1))["producers"][0];
    std::string out;
    for (const char* key : {"x", "w", "layout", "y"})
      out += producer.contains(key) ? producer[key].get<std::string>() + " " : "- ";
    return out;
  };
  EXPECT_EQ(operands(gemm({.m = 2, .n = 3, .k = 4})), "f32 f32 kn f32 ");
  EXPECT_EQ(operands(gemm({.m = 2,
                           .n = 3,
                           .k = 4,
                           .weight = Dtype::bf16,
                           .x = Dtype::bf16,
                           .y = Dtype::bf16,
                           .layout = WeightLayout::nk})),
            "bf16 bf16 nk bf16 ");
  EXPECT_EQ(operands(gemv({.n = 3, .k = 4, .weight = Dtype::bf16})), "f32 bf16 nk f32 ");
  EXPECT_EQ(operands(embedding_bag({.tables = 2, .rows = 5, .dim = 4, .batch = 3})), "i64 f32 kn f32 ");
  EXPECT_EQ(operands(copy({.rows = 2, .cols = 3})), "f32 - - f32 ");
}

// Sets a field of a good plan of format 2 (null: takes it away) and tells what the reader says.
std::string with_field(const char* pointer, const Json& value, Json json = saved(ring_plan())) {
  const Json::json_pointer at(pointer);
  if (value.is_null())
    json[at.parent_pointer()].erase(at.back());
  else
    json[at] = value;
  return refusal([&] { parse_plan(json.dump(), "p.json"); });
}

TEST(LoadPlan, RefusesWhatThisWeftDoesNotMake) {
  EXPECT_EQ(with_field("/producers/0/x", "i64"),
            "p.json: producers[0]: \"x\" is i64, but the x of a gemm is f32 or bf16 in this Weft; give f32");
  const Json vector = saved(build_keep(validated(gemv({.n = 3, .k = 4}), 1), 1));
  EXPECT_EQ(with_field("/producers/0/x", "bf16", vector),
            "p.json: producers[0]: \"x\" is bf16, but the x of a gemv is f32 in this Weft; give f32");
  EXPECT_EQ(with_field("/producers/0/layout", "kn", vector),
            "p.json: producers[0]: \"layout\" is kn, but the layout of a gemv is nk in this Weft; give nk");
  const std::vector<std::pair<const char*, Json>> refused = {{"/producers/0/y", "u8"},
                                                             {"/producers/0/w", "u8"},
                                                             {"/producers/0/layout", "mn"},
                                                             {"/producers/0/x", nullptr},
                                                             {"/producers/0/w", nullptr},
                                                             {"/producers/0/layout", nullptr},
                                                             {"/producers/0/weight", "f32"},
                                                             {"/counters/0/purpose", "hope"},
                                                             {"/counters/0/purpose", nullptr},
                                                             {"/outputs", nullptr},
                                                             {"/outputs", Json::array()},
                                                             {"/outputs", Json::array({"y", "inbox"})},
                                                             {"/outputs", Json::array({1})},
                                                             {"/route", "auto"},
                                                             {"/route", "detour"},
                                                             {"/route", 3}};
  for (const auto& [pointer, value] : refused) {
    const std::string said = with_field(pointer, value);
    const std::string field = std::string(pointer).substr(std::string(pointer).rfind('/') + 1);
    EXPECT_NE(said.find("p.json"), std::string::npos) << pointer << " " << value << ": " << said;
    EXPECT_NE(said.find(field), std::string::npos) << pointer << " " << value << ": " << said;
  }
}

TEST(LoadPlan, WeightsInBlocksAreAGemvsAlone) {
  const Plan plan = build_keep(validated(gemv({.m = 4, .n = 8, .k = 64, .weight = Dtype::q4_k}), 1), 1);
  const Plan back = parse_plan(to_json(plan), "p.json");
  EXPECT_EQ(back.producers[0].weight, Dtype::q4_k);
  EXPECT_EQ(to_json(back), to_json(plan));
  EXPECT_EQ(refusal([] { validated(gemm({.m = 4, .n = 8, .k = 64, .weight = Dtype::q8_0}), 1); }),
            "weights of type q8_0 are not supported; use f32, bf16 or f16, or of a gemv those in blocks");
  EXPECT_NE(with_field("/producers/0/x", "q8_0", saved(plan)).find("p.json: producers[0]"), std::string::npos);
}

TEST(LoadPlan, AGemmComesBackWithItsTypesAndLayout) {
  const Producer narrow = gemm({.m = 8,
                                .n = 8,
                                .k = 4,
                                .weight = Dtype::bf16,
                                .tile = {4, 8},
                                .x = Dtype::bf16,
                                .y = Dtype::bf16,
                                .layout = WeightLayout::nk});
  const Plan plan = reduce_scatter_plan(validated(narrow, 2), 2, Route::ring);
  const Plan back = parse_plan(to_json(plan), "p.json");
  EXPECT_EQ(back.producers[0].x(), Dtype::bf16);
  EXPECT_EQ(back.producers[0].y(), Dtype::bf16);
  EXPECT_EQ(back.producers[0].layout(), WeightLayout::nk);
  EXPECT_EQ(back.buffers[at(back.buffer("y"))].dtype, Dtype::bf16);
  EXPECT_TRUE(verify(back).ok());
  Plan wrong = back;
  wrong.buffers[at(wrong.buffer("y"))].dtype = Dtype::f32;
  ASSERT_FALSE(verify(wrong).ok());
  EXPECT_NE(verify(wrong).problems[0].find("output \"y\" is f32, but a producer makes bf16"), std::string::npos);
}

TEST(LoadPlan, NarrowCopiesAndWindowsComeBack) {
  for (const Producer& p :
       {copy({.rows = 8, .cols = 8, .dtype = Dtype::bf16}), window({.m = 8, .n = 8, .dtype = Dtype::bf16})}) {
    const Plan plan = build_keep(validated(p, 2), 2);
    const Plan back = parse_plan(to_json(plan), "p.json");
    EXPECT_EQ(back.producers[0].x(), Dtype::bf16);
    EXPECT_EQ(back.producers[0].y(), Dtype::bf16);
    EXPECT_EQ(to_json(back), to_json(plan));
  }
  const Json wide = saved(build_keep(validated(window({.m = 8, .n = 8}), 2), 2));
  EXPECT_NE(with_field("/producers/0/x", "bf16", wide).find("p.json: producers[0]: a window is written in bf16 but"),
            std::string::npos);
}

TEST(LoadPlan, Format1HasNoFieldsOfFormat2) {
  const Json old = in_format_1(ring_plan());
  const std::vector<std::pair<const char*, Json>> newer = {
      {"/route", "ring"}, {"/outputs", Json::array({"y"})}, {"/producers/0/x", "f32"}, {"/counters/0/purpose", "data"}};
  for (const auto& [pointer, value] : newer)
    EXPECT_NE(with_field(pointer, value, old).find("unknown field"), std::string::npos) << pointer;
}

// Whatever a rule or a promise can say comes back: each field is set to something that is not its default.
TEST(SavePlan, KeepsEveryField) {
  Plan plan = ring_plan();
  Rule& rule = plan.rules[0];
  const Expr e = Expr::parse("s + 2");
  rule.waits = {{1, e, e, 3, e, e, e}};
  rule.reads = {{e, 1, {{e, e}, {e, e}}, e, e}};
  rule.sources = rule.reads;
  rule.targets = rule.reads;
  rule.signals = {{e, 1, e, e, e, e}};
  rule.finish = rule.limit_peer = rule.order = rule.order_step = rule.when = rule.count = e;
  rule.limit = Limit::peer;
  plan.owed[0] = {e, e, {{"t", e}}, rule.reads[0], {e, e}, e, e, e, -1, true};
  const std::string text = to_json(plan);
  EXPECT_EQ(to_json(parse_plan(text, "p.json")), text);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["rules"][0].size(), 18u) << json["rules"][0];
  EXPECT_EQ(json["rules"][0]["waits"][0].size(), 7u);
  EXPECT_EQ(json["rules"][0]["reads"][0].size(), 5u);
  EXPECT_EQ(json["rules"][0]["signals"][0].size(), 6u);
  EXPECT_EQ(json["owed"][0].size(), 10u) << json["owed"][0];
}

}  // namespace
}  // namespace weft
