#include "weft/llm/engine/generation_config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"

namespace weft {
namespace {

GenerationConfig parsed(const char* text) { return parse_generation_config(parse_json(text, "g"), "g", 100); }

TEST(GenerationConfig, StopsAreOneOrSeveral) {
  EXPECT_EQ(parsed(R"({"eos_token_id": 7})").eos, std::vector<int>{7});
  EXPECT_EQ(parsed(R"({"eos_token_id": [7, 9]})").eos, (std::vector<int>{7, 9}));
  EXPECT_EQ(parsed(R"({"eos_token_id": null})").eos, std::nullopt);
  EXPECT_EQ(parsed("{}").eos, std::nullopt);
}

TEST(GenerationConfig, SamplingHoldsOnlyWhereItIsAskedFor) {
  EXPECT_FALSE(parsed(R"({"temperature": 0.6, "top_p": 0.9})").sampler) << "transformers is greedy without do_sample";
  const auto sampler = parsed(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20})").sampler;
  ASSERT_TRUE(sampler);
  EXPECT_EQ(sampler->temperature, 0.6);
  EXPECT_EQ(sampler->top_p, 0.9);
  EXPECT_EQ(sampler->top_k, 20);
  EXPECT_EQ(parsed(R"({"do_sample": true})").sampler->top_k, 50) << "transformers' own";
  EXPECT_EQ(parsed(R"({"do_sample": true})").sampler->temperature, 1);
}

TEST(GenerationConfig, RefusalsNameTheField) {
  EXPECT_EQ(refusal([] { parsed(R"({"eos_token_id": 100})"); }),
            "g: \"eos_token_id\" is 100; give a whole number from 0 to 99");
  EXPECT_NE(refusal([] { parsed(R"({"do_sample": true, "top_p": 3})"); }).find("\"top_p\" is 3"), std::string::npos);
  fuzz(R"({"eos_token_id":[7,9],"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":20})", 2000,
       [](const std::string& mutant) { parsed(mutant.c_str()); });
}

}  // namespace
}  // namespace weft
