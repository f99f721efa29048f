#include "weft/base/names.h"

#include <gtest/gtest.h>

#include "weft/base/choices.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

enum class Way { one_shot, two_shot };
constexpr Names<Way, 2> kWays{{{Way::one_shot, "one_shot"}, {Way::two_shot, "two_shot"}}};

TEST(Names, ADashStandsForAnUnderscore) {
  EXPECT_EQ(parse_name(kWays, "way", "one_shot"), Way::one_shot);
  EXPECT_EQ(parse_name(kWays, "way", "two-shot"), Way::two_shot);
  EXPECT_EQ(name_of(kWays, Way::two_shot), "two_shot");
}

TEST(Names, ARefusalListsTheChoices) {
  for (const char* text : {"", "one shot", "ONE_SHOT", "one_shot ", "one_sho"})
    EXPECT_EQ(refusal([&] { parse_name(kWays, "way", text); }),
              "unknown way \"" + std::string(text) + "\"; use one of one_shot, two_shot");
}

TEST(Choices, AreReadBackAsTheyAreWritten) {
  for (const Activation value :
       {Activation::none, Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_erf})
    EXPECT_EQ(parse_activation(to_string(value)), value);
  for (const Pooling value : {Pooling::sum, Pooling::mean}) EXPECT_EQ(parse_pooling(to_string(value)), value);
  EXPECT_EQ(refusal([] { parse_pooling("max"); }), "unknown pooling \"max\"; use one of sum, mean");
}

TEST(ErrorType, CarriesRankHostAndRecord) {
  Error error(Code::peer_failed, "rank 3 died", 3, "b");
  error.attach_record("step 12\n");
  EXPECT_STREQ(error.what(), "rank 3 died");
  EXPECT_EQ(error.code(), Code::peer_failed);
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(error.host(), "b");
  EXPECT_EQ(error.record(), "step 12\n");
  EXPECT_EQ(Error(Code::io, "x").rank(), -1);
}

TEST(ErrorType, CodesHaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (const Code code :
       {Code::bad_input, Code::no_memory, Code::peer_failed, Code::deadline, Code::io, Code::internal}) {
    for (const std::string& other : names) EXPECT_NE(other, to_string(code));
    names.emplace_back(to_string(code));
  }
}

}  // namespace
}  // namespace weft
