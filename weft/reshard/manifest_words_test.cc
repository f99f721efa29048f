// Expressions in a manifest: what they are worth, and where a wrong one is said to be.
#include "weft/reshard/manifest_words.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

const ManifestWords kWords({{"layers", 80}, {"tp", 4}});

TEST(ManifestWords, ExpressionsAreWorthTheirValue) {
  EXPECT_EQ(kWords.eval("layers / tp + 1", "f"), 21);
  EXPECT_EQ(kWords.with("i", 7).eval("i * tp", "f"), 28);
  EXPECT_EQ(kWords.with("tp", 2).eval("tp", "f"), 2) << "a loop's name hides a parameter's";
  EXPECT_EQ(kWords.eval("tp", "f"), 4) << "and only there";
  EXPECT_EQ(kWords.with("i", 45).fill("stage{i / 20}.w{i}", "f"), "stage2.w45");
  EXPECT_EQ(kWords.fill("no words", "f"), "no words");
  EXPECT_EQ(kWords.fill("", "f"), "");
}

TEST(ManifestWords, FieldsAreNumbersOrExpressionsWithinTheirRange) {
  const Json object = Json::parse(R"({"a": 3, "b": "layers - 1", "list": [1, "tp", 5], "name": "x{tp}"})");
  EXPECT_EQ(kWords.number(object, "a", "f", 0, 10), 3);
  EXPECT_EQ(kWords.number(object, "b", "f", 0, 100), 79);
  EXPECT_EQ(kWords.number_or(11, object, "c", "f", 0, 100), 11);
  EXPECT_EQ(kWords.number_or(11, object, "a", "f", 0, 100), 3);
  EXPECT_EQ(kWords.numbers(object, "list", "f", 1), (std::vector<std::int64_t>{1, 4, 5}));
  EXPECT_EQ(kWords.text(object, "name", "f"), "x4");
  EXPECT_EQ(kWords.text_or("y", object, "other", "f"), "y");
}

TEST(ManifestWords, ALoopHasOneTurnPerValue) {
  const auto turns = kWords.loop(Json::parse(R"({"for": "i in 1..tp - 1"})"), "f");
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0].eval("i", "f"), 1);
  EXPECT_EQ(turns[2].eval("i", "f"), 3);
  EXPECT_EQ(kWords.loop(Json::parse("{}"), "f").size(), 1u) << "without a loop, once";
  EXPECT_TRUE(kWords.loop(Json::parse(R"({"for": "i in 3..2"})"), "f").empty());
}

TEST(ManifestWords, RefusalsNameTheFieldAndTheRemedy) {
  const Json object = Json::parse(R"({"a": 3.5, "b": "layers * 1000", "list": [0], "open": "x{tp"})");
  const auto says = [](const std::function<void()>& call, std::initializer_list<const char*> parts) {
    const std::string text = refusal(call);
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  };
  says([&] { kWords.number(object, "a", "m.json", 0, 9); }, {"m.json: \"a\" is 3.5", "whole number"});
  says([&] { kWords.number(object, "b", "m.json", 0, 9); }, {"\"b\"", "which is 80000", "use 0 to 9"});
  says([&] { kWords.number(object, "none", "m.json", 0, 9); }, {"\"none\" is missing"});
  says([&] { kWords.numbers(object, "list", "m.json", 1); }, {"\"list\" is 0", "use 1 to"});
  says([&] { kWords.text(object, "open", "m.json"); }, {"\"open\"", "without its '}'"});
  says([&] { kWords.eval("heads * 2", "m.json"); }, {"m.json", "heads", "\"params\""});
  says([&] { kWords.eval("1 / 0", "m.json"); }, {"m.json", "1 / 0"});
  for (const char* bad : {"i", "i in 3", "i of 0..3", "..in "})
    says([&] { kWords.loop({{"for", bad}}, "m.json"); }, {"m.json: \"for\" is", "i in 0..79"});
  says([&] { kWords.loop({{"for", "i in 0..1000000"}}, "m.json"); }, {"1000001 turns", "use at most 100000"});
}

}  // namespace
}  // namespace weft
