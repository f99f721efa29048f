#include "weft/io/model_folder.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

TEST(ModelFolder, ANameOfAHubIsToldHowToBecomeAFolder) {
  const std::string wanted =
      "there is no folder \"Qwen/Qwen2.5-0.5B\"; if it is a model on Hugging Face, fetch it first: hf download "
      "Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B, and give --model Qwen2.5-0.5B";
  EXPECT_EQ(refusal([] { check_model_folder("Qwen/Qwen2.5-0.5B"); }), wanted);
  EXPECT_EQ(refusal([] { Tokenizer::load("Qwen/Qwen2.5-0.5B"); }), wanted);
}

TEST(ModelFolder, PathsPass) {
  for (const char* path : {"/nowhere/at-all", "nowhere", "./a/b", "../x", "~/x", "a/b/c", "a/", "", "/", "a b/c"})
    EXPECT_NO_THROW(check_model_folder(path)) << path;
  EXPECT_NO_THROW(check_model_folder(WEFT_SOURCE "/models/weft-16"));
}

}  // namespace
}  // namespace weft
