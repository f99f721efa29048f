// Random weights: from name, shape and seed alone, of a size that products keep.
#include "weft/llm/model/random_model.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/dtype.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

std::vector<float> values_of(const StoredTensor& tensor) {
  std::vector<float> out;
  for (std::size_t i = 0; i < tensor.bytes; i += tensor.dtype == StoredDtype::f32 ? 4 : 2) {
    if (tensor.dtype == StoredDtype::f32) {
      std::memcpy(&out.emplace_back(), tensor.data + i, 4);
    } else {
      bf16 value;
      std::memcpy(&value.bits, tensor.data + i, 2);
      out.push_back(to_float(value));
    }
  }
  return out;
}

class RandomWeights : public ::testing::Test {
 protected:
  // The config of a golden model, with some fields as `patch` has them.
  std::string config(std::size_t model, const char* patch = "{}") {
    Json json = load_json(golden_folders()[model] + "/config.json", {});
    json.merge_patch(Json::parse(patch));
    return folder_.write("config.json", json.dump());
  }
  ScratchFolder folder_;
};

TEST_F(RandomWeights, EveryTensorIsThereWithItsShape) {
  for (std::size_t model = 1; model < golden_folders().size(); ++model) {
    const ModelSource source = random_model(config(model));
    for (const auto& [name, shape] : all_tensors(source.config)) {
      const StoredTensor* tensor = source.tensors->find(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_EQ(tensor->shape, shape);
    }
    EXPECT_EQ(source.tensors->find("model.layers.99.mlp.up_proj.weight"), nullptr);
  }
}

TEST_F(RandomWeights, DependOnTheSeedAndOnNothingElse) {
  const std::string path = config(1, R"({"torch_dtype": "float32", "dtype": "float32"})");
  const ModelSource one = random_model(path, {.seed = 5}), same = random_model(path, {.seed = 5, .threads = 3}),
                    other = random_model(path, {.seed = 6});
  const std::string q = weight_name(one.config, 0, BlockPart::q), k = weight_name(one.config, 1, BlockPart::q);
  EXPECT_EQ(values_of(*one.tensors->find(q)), values_of(*same.tensors->find(q)));
  EXPECT_NE(values_of(*one.tensors->find(q)), values_of(*other.tensors->find(q)));
  EXPECT_NE(values_of(*one.tensors->find(q)), values_of(*one.tensors->find(k))) << "another name";
}

// A sum of n products of values of size 1 and of these has size 1: their mean square is 1 / n. Norms are near one.
TEST_F(RandomWeights, ProductsKeepTheSizeOfWhatTheyMultiply) {
  const ModelSource source = random_model(config(1, R"({"torch_dtype": "float32", "dtype": "float32"})"));
  for (const auto& [name, shape] : all_tensors(source.config)) {
    const std::vector<float> values = values_of(*source.tensors->find(name));
    double squares = 0;
    for (const float value : values) squares += double{value} * value;
    const double mean = squares / static_cast<double>(values.size());
    if (name.find("norm") != std::string::npos) {
      EXPECT_NEAR(mean, 1, 0.15) << name;
    } else {
      EXPECT_NEAR(mean * static_cast<double>(shape.back()), 1, 0.1) << name;
    }
  }
}

TEST_F(RandomWeights, HaveTheDtypeOfTheConfig) {
  const auto dtype = [](const ModelSource& source) {
    return source.tensors->find(embedding_name(source.config))->dtype;
  };
  EXPECT_EQ(dtype(random_model(config(1, R"({"dtype": "float32", "torch_dtype": null})"))), StoredDtype::f32);
  EXPECT_EQ(dtype(random_model(config(1, R"({"dtype": "float16"})"))), StoredDtype::f16);
  EXPECT_EQ(dtype(random_model(config(1, R"({"dtype": null, "torch_dtype": null})"))), StoredDtype::bf16);
  const std::string said = refusal([&] { random_model(config(1, R"({"dtype": "float64"})")); });
  EXPECT_NE(said.find("\"float64\"; random models are made as bfloat16, float16 or float32"), std::string::npos)
      << said;
}

}  // namespace
}  // namespace weft
