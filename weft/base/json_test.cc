#include "weft/base/json.h"

#include <cstdio>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

TEST(Json, ErrorsGiveFileLineAndColumn) {
  const std::string message = refusal([] { parse_json("{\n  \"a\": 1,\n  b\n}", "x.json"); });
  EXPECT_EQ(message.find("x.json: not JSON at line 3, column 3: "), 0u) << message;
}

TEST(Json, HostileTextIsRefusedNotCrashedOn) {
  for (const char* text : {"", "{", "nul", "NaN", "{\"a\": NaN}", "{\"a\": 1e999}", "[1,]", "\"\\u12\"", "\xff\xfe",
                           "{\"a\" 1}", "\"unended", "\\", "1 2"})
    EXPECT_NE(refusal([&] { parse_json(text, "x.json"); }), "did not throw") << text;
}

TEST(Json, DepthAndSizeHaveLimits) {
  const std::string deep(1000000, '[');
  EXPECT_EQ(refusal([&] { parse_json(deep, "x.json"); }),
            "x.json: nested more than 64 deep at line 1, column 65; flatten it");
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "x.json"));
  EXPECT_NO_THROW(parse_json("\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"", "x.json"));
  EXPECT_NE(refusal([] { parse_json("[1, 2, 3]", "x.json", {.bytes = 4}); }).find("at most 4"), std::string::npos);
}

TEST(Json, AccessorsCheckTypeAndRange) {
  const Json object = parse_json(
      R"({"n": 6, "x": 0.5, "s": "text", "b": true, "a": [1, 2], "o": {}, "big": 18446744073709551615})", "f");
  EXPECT_EQ(get_int(object, "n", "f", 1, 6), 6);
  EXPECT_DOUBLE_EQ(get_double(object, "x", "f", 0, 1), 0.5);
  EXPECT_DOUBLE_EQ(get_double(object, "n", "f", 0, 10), 6);
  EXPECT_EQ(get_string(object, "s", "f"), "text");
  EXPECT_TRUE(get_bool(object, "b", "f"));
  EXPECT_EQ(get_ints(object, "a", "f", 1, 2), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(get_object(object, "o", "f").empty());
  EXPECT_EQ(find_field(object, "none", "f"), nullptr);

  EXPECT_EQ(refusal([&] { get_int(object, "m", "f", 1, 8); }), "f: \"m\" is missing; give a whole number from 1 to 8");
  EXPECT_EQ(refusal([&] { get_int(object, "n", "f", 7, 8); }), "f: \"n\" is 6; give a whole number from 7 to 8");
  EXPECT_EQ(refusal([&] { get_int(object, "x", "f"); }), "f: \"x\" is 0.5; give a whole number");
  EXPECT_EQ(refusal([&] { get_int(object, "big", "f"); }), "f: \"big\" is 18446744073709551615; give a whole number");
  EXPECT_EQ(refusal([&] { get_double(object, "s", "f", 0, 1); }), "f: \"s\" is \"text\"; give a number from 0 to 1");
  EXPECT_EQ(refusal([&] { get_string(object, "a", "f"); }), "f: \"a\" is [1,2]; give a string");
  EXPECT_EQ(refusal([&] { get_bool(object, "n", "f"); }), "f: \"n\" is 6; give true or false");
  EXPECT_EQ(refusal([&] { get_array(object, "o", "f"); }), "f: \"o\" is {}; give an array [...]");
  EXPECT_EQ(refusal([&] { get_object(object, "a", "f"); }), "f: \"a\" is [1,2]; give an object {...}");
  EXPECT_EQ(refusal([&] { get_ints(object, "a", "f", 2, 9); }),
            "f: item 0 of \"a\" is 1; give a whole number from 2 to 9");
  EXPECT_NE(refusal([&] { get_int(object["a"], "n", "f"); }).find("stands where an object"), std::string::npos);
  EXPECT_EQ(refusal([&] {
              check_fields(parse_json(R"({"nmae": 1})", "f"), {"name", "size"}, "f");
            }),
            "f: unknown field \"nmae\"; known are name, size");
}

TEST(Json, FilesThatCannotBeReadAreNamed) {
  EXPECT_EQ(refusal([] { load_json("/nonexistent.json"); }).find("cannot open \"/nonexistent.json\": "), 0u);
  EXPECT_EQ(refusal([] { load_json("/"); }).find("cannot read \"/\": "), 0u);
  EXPECT_NE(refusal([] { load_json("/dev/zero"); }).find("larger than"), std::string::npos);
}

}  // namespace
}  // namespace weft
