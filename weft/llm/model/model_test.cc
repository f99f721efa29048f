// Loading: what is taken of the files, what is refused, and models of random weights.
#include "weft/llm/model/model.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/random_model.h"
#include "weft/llm/model/tensor_names.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kGqa = golden_folders()[1];

// A source with one tensor changed.
class Changed final : public TensorSource {
 public:
  Changed(std::shared_ptr<const TensorSource> source, std::string name, std::vector<std::int64_t> shape)
      : source_(std::move(source)), name_(std::move(name)), shape_(std::move(shape)) {}
  const StoredTensor* find(std::string_view name) const override {
    const StoredTensor* tensor = source_->find(name);
    if (name != name_) return tensor;
    if (shape_.empty()) return nullptr;
    changed_ = *tensor;
    changed_.shape = shape_;
    return &changed_;
  }
  std::string where() const override { return "changed"; }

 private:
  std::shared_ptr<const TensorSource> source_;
  std::string name_;
  std::vector<std::int64_t> shape_;
  mutable StoredTensor changed_;
};

std::string load_changed(const std::string& name, const std::vector<std::int64_t>& shape) {
  ModelSource source = open_model(kGqa);
  source.tensors = std::make_shared<Changed>(source.tensors, name, shape);
  return refusal([&] { Model(source, 0, 2); });
}

TEST(Model, MissingAndMisshapenTensorsAreNamed) {
  EXPECT_NE(load_changed("model.norm.weight", {}).find("no tensor \"model.norm.weight\""), std::string::npos);
  const std::string said = load_changed("model.layers.1.mlp.up_proj.weight", {96, 160});
  EXPECT_NE(said.find("\"model.layers.1.mlp.up_proj.weight\" is 96 x 160, but by"), std::string::npos) << said;
}

TEST(Model, OneRankCopiesNoMatrixOfBf16) {
  const Model one = Model::load(kGqa), half = Model::load(kGqa, 1, 2);
  const std::int64_t norms = 7 * 96 * 4;
  EXPECT_EQ(one.copied_bytes(), norms);
  EXPECT_EQ(half.copied_bytes(),
            norms + 3 * 96 * (48 + 96) * 2);  // 3 of 6 heads of 16; 96 of 160 columns are the widest
  EXPECT_EQ(half.block(0).down.cols, 96);
  EXPECT_EQ(half.block(0).k.rows, 16);  // heads 3 to 5 share one of the two key heads
}

// A folder with the tensors of another, as `change` leaves them.
template <typename Change>
std::string changed_folder(ScratchFolder& scratch, const std::string& from, const Change& change) {
  const std::string folder = scratch.file("changed");
  const TensorFile file = TensorFile::open(from + "/model.safetensors");
  std::vector<StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
  change(tensors);
  std::filesystem::create_directories(folder);
  write_safetensors(folder + "/model.safetensors", tensors);
  std::filesystem::copy_file(from + "/config.json", folder + "/config.json");
  return folder;
}

TEST(Model, AHeadBesideATiedOneFollowsTheFile) {
  ScratchFolder scratch;
  std::vector<bf16> head(256 * 96, to_bf16(0.5f));
  const std::string folder = changed_folder(scratch, kGqa, [&](std::vector<StoredTensor>& tensors) {
    tensors.push_back({"lm_head.weight",
                       StoredDtype::bf16,
                       {256, 96},
                       reinterpret_cast<const std::byte*>(head.data()),
                       head.size() * 2});
  });
  EXPECT_TRUE(open_model(kGqa).config.tied_head);
  EXPECT_FALSE(open_model(folder).config.tied_head);
  const Model model = Model::load(folder);
  EXPECT_EQ(to_float(static_cast<const bf16*>(model.head().data)[77]), 0.5f);
  EXPECT_NE(to_float(static_cast<const bf16*>(model.embedding().data)[77]), 0.5f);
  EXPECT_NE(model_hash(folder), model_hash(kGqa));
}

TEST(Model, NamesMayLeaveOutTheirRoot) {
  ScratchFolder scratch;
  const std::string gpt2 = golden_folder("gpt2");
  const std::string folder = changed_folder(scratch, gpt2, [](std::vector<StoredTensor>& tensors) {
    for (StoredTensor& tensor : tensors) tensor.name = tensor.name.substr(std::string("transformer.").size());
  });
  const Model whole = Model::load(gpt2, 1, 3), bare = Model::load(folder, 1, 3);
  ASSERT_EQ(whole.block(2).k.rows, bare.block(2).k.rows);
  const auto count = num(whole.block(2).k.rows * whole.block(2).k.cols) * 2;
  EXPECT_EQ(std::memcmp(whole.block(2).k.data, bare.block(2).k.data, count), 0);
}

// Neither widened nor copied: rows are read where the file has them.
TEST(Model, F16StaysF16) {
  const Model model = Model::load(golden_folder("llama-untied"));
  for (const Weight* weight : {&model.block(0).q, &model.block(0).o, &model.block(2).down, &model.head()})
    EXPECT_EQ(weight->dtype, Dtype::f16);
  EXPECT_EQ(model.copied_bytes(), 7 * 80 * 4);  // norms
}

TEST(Model, PartsOfOneTensorAreReadInPlace) {
  const Model model = Model::load(golden_folder("phi3"));
  EXPECT_EQ(model.copied_bytes(), 7 * 48 * 4);  // norms
}

TEST(Model, RepairedTensorsTakeThePlaceOfOthers) {
  ScratchFolder folder;
  const ModelSource plain = open_model(kGqa);
  const std::string name = weight_name(plain.config, 1, BlockPart::norm2);
  const std::vector<float> ones(96, 1.0f), twos(96, 2.0f);
  const auto tensor = [](const std::string& called, const std::vector<float>& values) {
    return StoredTensor{called, StoredDtype::f32, {96}, reinterpret_cast<const std::byte*>(values.data()), 96 * 4};
  };
  const StoredTensor both[] = {tensor(name, ones), tensor("rank1." + name, twos)};
  write_safetensors(folder.file("repaired.safetensors"), both);
  ModelSource source = plain;
  source.repaired = file_source(folder.file("repaired.safetensors"));
  EXPECT_EQ(Model(source, 0, 2).block(1).norm2.weight[5], 1.0f);
  EXPECT_EQ(Model(source, 1, 2).block(1).norm2.weight[5], 2.0f);
  EXPECT_NE(Model(source, 0, 2).block(0).norm2.weight[5], 1.0f);
}

TEST(RandomModel, IsTheSameInMemoryAndInAFolder) {
  ScratchFolder folder;
  const std::string config = kGqa + "/config.json";
  write_random_model(config, folder.file("model"), {.seed = 3});
  const auto hidden = [&](const ModelSource& source) {
    std::vector<float> out;
    World::local(1, [&](World& world) {
      const Model model(source, 0, 1);
      Engine engine(world, model, {.rows = 8});
      const std::vector<int> ids{1, 2, 3};
      const Feed feed{0, ids};
      engine.forward({&feed, 1});
      out.assign(engine.hidden().begin(), engine.hidden().end());
    });
    return out;
  };
  const auto from_memory = hidden(random_model(config, {.seed = 3, .threads = 2}));
  EXPECT_EQ(hidden(open_model(folder.file("model"))), from_memory);
  EXPECT_NE(hidden(random_model(config, {.seed = 4})), from_memory);
  for (const float value : from_memory) ASSERT_TRUE(std::isfinite(value));
}

TEST(ModelHash, ChangesWithTheConfigAndTheWeights) {
  ScratchFolder folder;
  for (const char* name : {"a", "b", "c"}) write_random_model(kGqa + "/config.json", folder.file(name), {.seed = 1});
  write_random_model(kGqa + "/config.json", folder.file("b"), {.seed = 2});
  std::ofstream(folder.file("c") + "/config.json", std::ios::app) << "\n";
  const std::string a = model_hash(folder.file("a"));
  EXPECT_EQ(a.size(), 64u);
  EXPECT_NE(a, model_hash(folder.file("b")));
  EXPECT_NE(a, model_hash(folder.file("c")));
  write_random_model(kGqa + "/config.json", folder.file("c"), {.seed = 1});
  EXPECT_EQ(a, model_hash(folder.file("c")));
}

}  // namespace
}  // namespace weft
