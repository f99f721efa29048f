// Weights that were copied: only the time of a token may depend on it.
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/kernel/random_test.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/quantise/quantise_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kTrained = std::string(WEFT_SOURCE) + "/models/weft-16";

// What leaves rank 0 for a prompt and then for one token.
std::vector<float> logits_with(const std::string& path, int ranks, WeightPlace place, bool* huge_pages) {
  std::vector<float> out;
  World::local(ranks, [&](World& world) {
    const Model model(open_model(path), world.rank(), world.size(), place);
    Engine engine(world, model, {.capacity = 64, .rows = 32});
    std::vector<int> tokens(20);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i * 389 % 8192);
    const int last = 77;
    for (const std::span<const int> some : {std::span<const int>(tokens), std::span<const int>(&last, 1)}) {
      const Feed feed{0, some};
      engine.forward({&feed, 1});
      const int row = static_cast<int>(some.size()) - 1;
      const std::vector<float> logits = engine.logits({&row, 1});
      if (world.rank() == 0) out.insert(out.end(), logits.begin(), logits.end());
    }
    if (world.rank() == 0) *huge_pages = model.block(0).gate.huge_pages && model.head().huge_pages;
  });
  return out;
}

TEST(CopiedWeights, GiveTheSameLogits) {
  const ScratchFolder folder;
  const std::string few_bits = folder.file("q4_k.gguf"), more_bits = folder.file("q8_0.gguf");
  quantise_model(kTrained, few_bits, {.type = Dtype::q4_k, .threads = 2});
  quantise_model(kTrained, more_bits, {.type = Dtype::q8_0, .threads = 2});
  for (const std::string& path : {kTrained, few_bits, more_bits})
    for (const int ranks : {1, 2}) {
      bool in_files = true, in_memory = false;
      const std::vector<float> mapped = logits_with(path, ranks, WeightPlace::mapped, &in_files);
      const std::vector<float> copied = logits_with(path, ranks, WeightPlace::copied, &in_memory);
      ASSERT_EQ(mapped.size(), 2u * 8192) << path;
      EXPECT_TRUE(same_bits(mapped, copied)) << path << " on " << ranks;
      EXPECT_FALSE(in_files) << path << " on " << ranks;
      EXPECT_TRUE(in_memory) << path << " on " << ranks;
    }
}

}  // namespace
}  // namespace weft
