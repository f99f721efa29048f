// The state of a distillation on disk, and the shares of samples and of writers.
#include "weft/llm/distill/state.h"

#include <numeric>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/llm/distill/activations.h"
#include "weft/llm/distill/block_weights.h"
#include "weft/llm/distill/train.h"

namespace weft {
namespace {

const std::string kStateModel = std::string(WEFT_SOURCE) + "/tests/models/llama-gqa";

DistilledBlock second_block(const ModelSource& source) {
  DistilledBlock done{.block = 1, .loss_before = 0.125, .loss_after = 1.0 / 3, .grouped = true, .seconds = 12.5};
  done.weights = read_block(source.config, *source.tensors, 1);
  return done;
}

TEST(DistillState, ABlockComesBackToTheBit) {
  const ScratchFolder folder;
  const ModelSource source = open_model(kStateModel);
  const DistillState state(folder.path(), source.config, "these");
  EXPECT_FALSE(state.find(1));
  const DistilledBlock done = second_block(source);
  state.save(done);
  const auto found = state.find(1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->weights, done.weights);
  EXPECT_EQ(found->loss_before, done.loss_before);
  EXPECT_EQ(found->loss_after, done.loss_after) << "all digits are written";
  EXPECT_TRUE(found->grouped);
  EXPECT_TRUE(found->resumed);
  EXPECT_EQ(found->seconds, 12.5);
  EXPECT_FALSE(state.find(0)) << "another block is not there";
}

TEST(DistillState, OtherSettingsAndOtherFilesAreRefused) {
  const ScratchFolder folder;
  const ModelSource source = open_model(kStateModel);
  DistillState(folder.path(), source.config, "these").save(second_block(source));
  const DistillState others(folder.path(), source.config, "those");
  EXPECT_NE(refusal([&] { others.find(1); }).find("with other settings (these; now those)"), std::string::npos);
  const std::string path = folder.file("block-0001.safetensors");
  write_safetensors(path, {}, {{"settings", "those"}, {"loss_before", "much"}});
  EXPECT_NE(refusal([&] { others.find(1); }).find("\"loss_before\" of its metadata is no number"), std::string::npos);
  write_safetensors(path, {}, {});
  EXPECT_NE(refusal([&] { others.find(1); }).find("has no \"settings\""), std::string::npos);
  folder.write("block-0001.safetensors", "cut");
  EXPECT_NE(refusal([&] { others.find(1); }), "did not throw");
}

// Whatever changes the bytes of a result must change the line.
TEST(DistillState, SettingsNameAllThatTheResultDependsOn) {
  DistillJob job{
      .model = open_model(kStateModel), .tasks = {{true, true}, {}}, .samples = {{1, 2}, {3, 4}}, .about = "x"};
  const std::string plain = settings_of(job, 2);
  const auto changed = [&](const auto& change) {
    DistillJob other = job;
    change(other);
    return settings_of(other, 2) != plain;
  };
  EXPECT_EQ(settings_of(job, 2), plain);
  EXPECT_NE(settings_of(job, 4), plain);
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.epochs = 3; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.lr = 0.5; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.clip = 0; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.weight_decay = 0.1; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.batch = 2; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.seed = 2; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.options.inputs = DistillInputs::sync; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.tasks[0].grouping = HeadGrouping::yes; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.tasks[1].drop = true; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.samples[1][1] = 5; }));
  EXPECT_TRUE(changed([](DistillJob& j) { j.about = "y"; }));
  EXPECT_FALSE(changed([](DistillJob& j) { j.options.threads = 7; })) << "bytes do not depend on threads";
}

TEST(SampleSplit, CheckedSamplesAreNotTrainedOn) {
  for (const std::int64_t batch : {1, 2, 4})
    for (std::int64_t samples = 2 * batch; samples < 100; samples += 3) {
      const SampleSplit split = split_samples(samples, batch);
      EXPECT_EQ(split.train, split.check_begin);
      EXPECT_GE(split.check_end - split.check_begin, batch);
      EXPECT_LE(split.check_end, samples);
      EXPECT_EQ(split.train % batch, 0);
      EXPECT_EQ(training_steps(split, {.epochs = 3, .batch = static_cast<int>(batch)}), split.train / batch * 3);
    }
  const SampleSplit one = split_samples(1, 1);  // there is nothing else
  EXPECT_EQ(one.train, 1);
  EXPECT_EQ(one.check_begin, 0);
  EXPECT_EQ(one.check_end, 1);
}

// Each of several writers stores its share; together they store everything once.
TEST(Activations, WritersTogetherWriteTheWhole) {
  for (const int writers : {1, 2, 3, 7}) {
    Activations activations(5, 6, writers);
    std::vector<float> values(2 * 6);
    std::iota(values.begin(), values.end(), 1.0f);
    for (int rank = 0; rank < writers; ++rank) activations.write(1, 2, values.data(), rank);
    EXPECT_EQ(activations.samples(), 5);
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(activations.sample(0)[i], 0);
      EXPECT_EQ(activations.sample(1)[i], values[at(i)]);
      EXPECT_EQ(activations.sample(2)[i], values[at(i + 6)]);
      EXPECT_EQ(activations.sample(3)[i], 0);
    }
  }
}

TEST(Activations, EmbeddingsOfUnknownTokensAreRefused) {
  const ModelSource source = open_model(kStateModel);
  std::vector<float> out(num(source.config.hidden));
  for (const int token : {-1, static_cast<int>(source.config.vocab)})
    EXPECT_NE(refusal([&] {
                embed(source.config, *source.tensors, {&token, 1}, out.data());
              }).find("outside the model's vocabulary"),
              std::string::npos);
}

}  // namespace
}  // namespace weft
