// Fields that an object has twice are found wherever they are, and nothing else is.
#include "weft/io/tensor/unique_keys.h"

#include <random>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

std::string said_of(const std::string& text) {
  return refusal([&] { check_unique_keys(text, "f"); });
}

TEST(UniqueKeys, AreTakenAtAnyDepth) {
  for (const char* text : {"{}", "[]", "7", R"({"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]})",
                           R"({"a": {"b": {"c": 1}}, "b": {"c": {"a": 1}}})", R"({"a": "a", "A": "a"})"})
    EXPECT_EQ(said_of(text), "did not throw") << text;
}

TEST(UniqueKeys, ADoubleIsNamed) {
  EXPECT_EQ(said_of(R"({"a": 1, "a": 1})"), "f: \"a\" is there twice; leave one of them");
  EXPECT_NE(said_of(R"({"x": [1, {"deep": 1, "y": 2, "deep": 3}]})").find("\"deep\""), std::string::npos);
  EXPECT_NE(said_of(R"({"a": {"b": 1}, "c": 2, "a": 3})").find("\"a\""), std::string::npos);
  // The same name, written with an escape.
  EXPECT_NE(said_of(R"({"ab": 1, "\u0061b": 2})").find("\"ab\""), std::string::npos);
}

// Random objects with one field per name; then one of them again, at the end of the object.
TEST(UniqueKeys, RandomObjectsWithAndWithoutADouble) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text = "{";
    const auto fields = 1 + random() % 12;
    for (std::size_t i = 0; i < fields; ++i)
      text += (i == 0 ? "\"k" : ", \"k") + std::to_string(i) + "\": " + (random() % 2 ? "{\"k0\": [1, 2]}" : "null");
    EXPECT_EQ(said_of(text + "}"), "did not throw");
    const std::string again = "k" + std::to_string(random() % fields);
    EXPECT_NE(said_of(text + ", \"" + again + "\": 0}").find("\"" + again + "\" is there twice"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft
