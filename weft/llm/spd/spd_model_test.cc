// Repaired weights in place of a model's own: which blocks they are for, and what is refused.
#include "weft/llm/spd/spd_model.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/base/sha256.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

const std::string kRepairedModel = std::string(WEFT_SOURCE) + "/tests/models/llama-gqa";

class RepairedModel : public ::testing::Test {
 protected:
  RepairedModel() : config_(load_config(kRepairedModel)), norm_(num(config_.hidden), 2.0f) {}

  StoredTensor tensor(const std::string& name) {
    return {.name = name,
            .dtype = StoredDtype::f32,
            .shape = {std::ssize(norm_)},
            .data = reinterpret_cast<const std::byte*>(norm_.data()),
            .bytes = norm_.size() * sizeof(float)};
  }

  // An spd file for two ranks that drops all blocks, with these tensors as its weights.
  SpdFile file_with(const std::vector<std::string>& names) {
    std::vector<StoredTensor> tensors;
    for (const std::string& name : names) tensors.push_back(tensor(name));
    write_safetensors(folder_.file("w.safetensors"), tensors, {});
    SpdFile spd{.model = model_hash(kRepairedModel), .tp = 2, .blocks = all_blocks(config_.blocks, {.drop = true})};
    spd.weights = "w.safetensors";
    spd.weights_sha256 = file_sha256(folder_.file("w.safetensors"));
    spd.path = folder_.file("x.spd");
    return spd;
  }

  std::string norm_name(std::int64_t block) const { return weight_name(config_, block, BlockPart::norm1); }

  ScratchFolder folder_;
  ModelConfig config_;
  std::vector<float> norm_;
};

TEST_F(RepairedModel, BlocksAreThoseWhoseTensorsTheFileHas) {
  std::vector<bool> want(num(config_.blocks), false);
  EXPECT_EQ(repaired_blocks(SpdFile{}, config_), want) << "no weights, no repaired block";
  want[1] = true;
  EXPECT_EQ(repaired_blocks(file_with({norm_name(1)}), config_), want);
  EXPECT_EQ(repaired_blocks(file_with({"rank0." + norm_name(1)}), config_), want) << "one rank's own tensor counts";
}

TEST_F(RepairedModel, TensorsOfNoBlockAreRefused) {
  for (const std::string& name : {std::string("stray"), "rank." + norm_name(1), "rankx." + norm_name(1)})
    EXPECT_NE(refusal([&] {
                repaired_blocks(file_with({norm_name(1), name}), config_);
              }).find("1 of its 2 tensors belong to no block"),
              std::string::npos)
        << name;
}

TEST_F(RepairedModel, OnlyUsedBlocksAreSeen) {
  const SpdFile spd = file_with({norm_name(0), norm_name(1)});
  std::vector<bool> used(num(config_.blocks), false);
  used[1] = true;
  const ModelSource source = open_model(kRepairedModel), repaired = repaired_model(source, spd, used);
  EXPECT_EQ(repaired.repaired->find(norm_name(0)), nullptr);
  EXPECT_NE(repaired.repaired->find(norm_name(1)), nullptr);
  EXPECT_EQ(repaired.config.design, source.config.design) << "no bias, no biases";
  EXPECT_EQ(repaired_model(source, SpdFile{}, used).repaired, nullptr);
}

TEST_F(RepairedModel, ADroppedBlockHasRepairedWeightsAndASynchronisedOneItsOwn) {
  SpdFile spd = file_with({norm_name(0), norm_name(1)});
  spd.blocks[0].drop = false;
  const Model model(open_model(kRepairedModel, spd, 2), 0, 2), plain = Model::load(kRepairedModel, 0, 2);
  EXPECT_EQ(model.block(0).norm1.weight[0], plain.block(0).norm1.weight[0]);
  EXPECT_EQ(model.block(1).norm1.weight[0], 2.0f);
  EXPECT_NE(refusal([&] { open_model(kRepairedModel, spd, 3); }), "did not throw") << "made for two ranks";
}

}  // namespace
}  // namespace weft
