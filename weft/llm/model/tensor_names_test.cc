// Names and shapes of tensors: those that model files have, each once, and all of them.
#include "weft/llm/model/tensor_names.h"

#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/model.h"

namespace weft {
namespace {

TEST(TensorNames, AreThoseOfTheFilesWithTheirShapes) {
  for (const std::string& folder : golden_folders()) {
    SCOPED_TRACE(folder);
    const auto files = folder_source(folder);
    for (const auto& [name, shape] : all_tensors(open_model(folder).config)) {
      const StoredTensor* tensor = files->find(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_EQ(tensor->shape, shape) << name;
    }
  }
}

TEST(TensorNames, CountEveryParameterOnce) {
  for (const std::string& folder : golden_folders()) {
    SCOPED_TRACE(folder);
    const ModelConfig config = open_model(folder).config;
    std::set<std::string> names;
    std::int64_t parameters = 0;
    for (const auto& [name, shape] : all_tensors(config)) {
      EXPECT_TRUE(names.insert(name).second) << name;
      parameters += std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    }
    EXPECT_EQ(parameters, num_parameters(config));
    EXPECT_TRUE(names.contains(head_name(config)));
    EXPECT_TRUE(names.contains(final_norm_name(config)));
    EXPECT_EQ(names.contains(config.head), !config.tied_head);
  }
}

// What a block multiplies with: columns of one part are rows of the next.
TEST(TensorNames, ShapesOfABlockFitTogether) {
  for (const std::string& folder : golden_folders()) {
    SCOPED_TRACE(folder);
    const ModelConfig config = load_config(folder);
    for (const BlockPart part : {BlockPart::q, BlockPart::k, BlockPart::v, BlockPart::up})
      EXPECT_EQ(shape_of(config, part)[1], config.hidden);
    for (const BlockPart part : {BlockPart::o, BlockPart::down}) EXPECT_EQ(shape_of(config, part)[0], config.hidden);
    EXPECT_EQ(shape_of(config, BlockPart::k), shape_of(config, BlockPart::v));
    EXPECT_EQ(shape_of(config, BlockPart::o)[1], shape_of(config, BlockPart::q)[0]);
    EXPECT_EQ(shape_of(config, BlockPart::down)[1], shape_of(config, BlockPart::up)[0]);
    EXPECT_EQ(shape_of(config, BlockPart::norm1), std::vector<std::int64_t>{config.hidden});
    std::set<std::int64_t> outputs;  // of the tensors that hold q, k and v: each output is one part's
    for (const BlockPart part : {BlockPart::q, BlockPart::k, BlockPart::v}) {
      const PartPlace place = place_of(config, 0, part);
      for (std::int64_t i = 0; i < shape_of(config, part)[0]; ++i) {
        EXPECT_LT(place.stored(i), place.shape[place.transposed ? 1 : 0]);
        if (place.name == place_of(config, 0, BlockPart::q).name) {
          EXPECT_TRUE(outputs.insert(place.stored(i)).second) << i;
        }
      }
    }
  }
}

TEST(TensorNames, FamiliesSpellThemDifferently) {
  ModelConfig llama, opt;
  opt.names = &kOptNames, opt.root = "model.decoder.", opt.file = "o/config.json";
  opt.design.norm = NormKind::layer, opt.design.gated = false, opt.design.learned_positions = 2;
  EXPECT_EQ(weight_name(llama, 3, BlockPart::up), "model.layers.3.mlp.up_proj.weight");
  EXPECT_EQ(weight_name(opt, 3, BlockPart::up), "model.decoder.layers.3.fc1.weight");
  EXPECT_EQ(bias_name(opt, 0, BlockPart::norm1), "model.decoder.layers.0.self_attn_layer_norm.bias");
  EXPECT_EQ(positions_name(llama), "");
  EXPECT_EQ(positions_name(opt), "model.decoder.embed_positions.weight");
  EXPECT_TRUE(has_bias(opt, BlockPart::norm2));
  EXPECT_FALSE(has_bias(llama, BlockPart::norm2));
  EXPECT_NE(refusal([&] { weight_name(opt, 0, BlockPart::gate); }).find("o/config.json"), std::string::npos);
  EXPECT_EQ(block_parts(llama).size(), block_parts(opt).size() + 1) << "the gate";
}

}  // namespace
}  // namespace weft
