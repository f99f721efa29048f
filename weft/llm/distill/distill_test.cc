#include "weft/llm/distill/distill.h"

#include <fstream>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/llm/distill/block_weights.h"
#include "weft/llm/distill/state.h"
#include "weft/llm/distill/train.h"
#include "weft/nn/loss.h"

namespace weft {
namespace {

DistillJob job_of(const std::string& name, const std::string& folder) {
  DistillJob job{.model = open_model(std::string(WEFT_SOURCE) + "/tests/models/" + name)};
  job.tasks.assign(num(job.model.config.blocks), {.drop = true, .repair = true});
  std::mt19937 engine(4);
  for (int s = 0; s < 48; ++s) {
    std::vector<int>& sample = job.samples.emplace_back(24);
    for (int& token : sample) token = static_cast<int>(engine() % static_cast<unsigned>(job.model.config.vocab));
  }
  job.options = {.epochs = 3, .lr = 1e-3, .batch = 2};
  job.folder = folder;
  return job;
}

using Report = std::function<void(const DistillProgress&)>;

// What rank 0 has at the end.
std::vector<DistilledBlock> distilled(
    const DistillJob& job, int ranks, const Report& report = [](const auto&) {}) {
  std::vector<DistilledBlock> out;
  SharedActivations shared(job, ranks);
  World::local(ranks, [&](World& world) {
    auto done = distill(world, job, &shared, report);
    if (world.rank() == 0) out = std::move(done);
  });
  return out;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Distill, LowersTheLossOfEveryBlockOfEveryFamily) {
  for (const char* name : {"llama-gqa", "mistral-window", "opt-bias"})
    for (const DistillInputs inputs : {DistillInputs::sync, DistillInputs::dropped, DistillInputs::chained}) {
      const ScratchFolder folder;
      DistillJob job = job_of(name, folder.path());
      job.options.inputs = inputs;
      const auto done = distilled(job, 3);
      ASSERT_EQ(done.size(), job.tasks.size());
      for (const DistilledBlock& block : done)
        EXPECT_LT(block.loss_after, 0.98 * block.loss_before) << name << " block " << block.block;
    }
}

// Threads of a rank, and whether ranks share their activations, change nothing.
TEST(Distill, BytesDependOnNeitherThreadsNorMemory) {
  const ScratchFolder folders[3];
  std::vector<float> weights[3];
  for (const int way : {0, 1, 2}) {
    DistillJob job = job_of("llama-gqa", folders[way].path());
    job.options.threads = way == 1 ? 2 : 1;
    if (way < 2) {
      weights[way] = distilled(job, 2).back().weights;
      continue;
    }
    World::local(2, [&](World& world) {
      auto done = distill(world, job, nullptr, [](const auto&) {});
      if (world.rank() == 0) weights[way] = done.back().weights;
    });
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(weights[0], weights[2]);
}

// A run that dies in the middle of a block and is started again ends with the bytes of one that did not.
TEST(Distill, ResumesToTheSameBytes) {
  for (const DistillInputs inputs : {DistillInputs::sync, DistillInputs::chained}) {
    const ScratchFolder whole, broken;
    DistillJob job = job_of("opt-bias", whole.path());
    job.options.inputs = inputs;
    job.tasks[1].grouping = HeadGrouping::yes;
    const auto expected = distilled(job, 2);
    job.folder = broken.path();
    struct Killed {};
    EXPECT_THROW(distilled(job, 2,
                           [](const DistillProgress& at) {
                             if (at.block == 1 && at.epoch == 2) throw Killed();
                           }),
                 Killed);
    const auto resumed = distilled(job, 2);
    ASSERT_EQ(resumed.size(), expected.size());
    EXPECT_TRUE(resumed[0].resumed);
    EXPECT_FALSE(resumed[1].resumed);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(resumed[i].weights, expected[i].weights) << i;
      EXPECT_EQ(resumed[i].loss_after, expected[i].loss_after) << i;
    }
    EXPECT_EQ(bytes_of(broken.file("block-0000.safetensors")).size(),
              bytes_of(whole.file("block-0000.safetensors")).size());
    job.options.lr = 1e-4;  // the state of another run is not taken for this one's
    EXPECT_THROW(distilled(job, 2), Error);
  }
}

TEST(Distill, ReplicasStayEqualToTheBit) {
  const ModelSource model = open_model(std::string(WEFT_SOURCE) + "/tests/models/llama-gqa");
  const std::vector<float> whole = read_block(model.config, *model.tensors, 0);
  std::vector<std::vector<float>> trained(5);
  World::local(5, [&](World& world) {  // two key/value heads on five ranks
    ThreadPool pool(1);
    RankBlock block(world, model.config, 16, 1, &pool);
    Activations inputs(4, block.values()), targets(4, block.values());
    std::mt19937 engine(2);
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<float> rows(num(block.values()));
    std::vector<float> weights = take_shard(model.config, block.shard(), whole);
    for (int s = 0; s < 4; ++s) {
      for (float& value : rows) value = distribution(engine);
      inputs.write(s, 1, rows.data(), 0);
      block.synchronised(weights.data(), inputs.sample(s), rows.data());
      targets.write(s, 1, rows.data(), 0);
    }
    train_block(block, {inputs, targets, split_samples(4, 1)}, {.epochs = 4, .lr = 1e-2}, 1, &weights,
                [](int, double) {});
    std::vector<float>& mine = trained[at(world.rank())];
    mine.assign(whole.size(), 0.0f);
    put_shard(model.config, block.shard(), weights, &mine);
    RankSum(world, std::ssize(mine)).add_up(mine.data());
    EXPECT_EQ(take_shard(model.config, block.shard(), mine), weights) << "rank " << world.rank();
  });
  EXPECT_NE(trained[0], whole);
}

TEST(Distill, RefusesWhatCannotBe) {
  const ScratchFolder folder;
  const auto refuses = [&](const std::function<void(DistillJob&)>& spoil, const std::string& words) {
    DistillJob job = job_of("opt-bias", folder.path());
    spoil(job);
    try {
      distilled(job, 2);
      ADD_FAILURE() << "took " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuses([](DistillJob& job) { job.options.batch = 400; }, "fewer than the batch");
  refuses([](DistillJob& job) { job.samples[3].pop_back(); }, "one length");
  refuses([](DistillJob& job) { job.tasks.pop_back(); }, "one per block");
  refuses([](DistillJob& job) { job.options.lr = 0; }, "lr is 0");
  refuses([](DistillJob& job) { job.samples[0][0] = 1 << 20; }, "vocabulary");
}

}  // namespace
}  // namespace weft
