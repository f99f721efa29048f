#include "weft/pipeline/config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/pipeline/places.h"

namespace weft::pipeline {
namespace {

Json whole_file() {
  return Json::parse(R"({
    "model": {"hidden": 64, "layers": 6, "heads": 4, "kv_heads": 2, "mlp": 96, "sequence": 32},
    "data": {"text": ["a.txt", "b.txt"], "tokenizer": "folder"},
    "training": {"steps": 40, "batch": 12, "micro_batches": 3, "lr": 0.01, "dtype": "bf16", "clip": 0},
    "mesh": {"stages": [{"layers": 4, "data": 2}, {"tensor": 2}]},
    "schedule": "eager_1f1b", "transfers": {"strategy": "send_recv", "overlap": false}, "checkpoint_every": 10})");
}

TrainConfig settled(const Json& json) {
  TrainConfig config = parse_train_config(json, "file");
  config.model.vocab = 100;
  settle(&config);
  return config;
}

std::string refused(const std::function<void(Json&)>& change) {
  Json json = whole_file();
  change(json);
  return refusal([&] { settled(json); });
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TrainConfig, ReadsAllOfAFile) {
  const TrainConfig config = settled(whole_file());
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.texts, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(config.sequences(), 4);
  EXPECT_EQ(config.lr.warm_up, 2);  // a twentieth of the steps
  EXPECT_EQ(config.precision, Precision::bf16);
  EXPECT_EQ(config.num_ranks(), 4);
  EXPECT_EQ(config.stages[1].layers, 2);  // what the first leaves
  EXPECT_EQ(config.schedule, Kind::eager_1f1b);
  EXPECT_FALSE(config.transfers.overlap);
  EXPECT_EQ(config.checkpoint_every, 10);
}

TEST(TrainConfig, RefusesWhatItDoesNotKnow) {
  expect_says(refused([](Json& j) { j["modle"] = 1; }), "modle");
  expect_says(refused([](Json& j) { j["training"]["dtype"] = "f16"; }), R"("dtype" is "f16"; use "f32" or "bf16")");
  expect_says(refused([](Json& j) { j["model"]["kind"] = "rnn"; }), "u_transformer");
  expect_says(refused([](Json& j) { j["schedule"] = "zero_bubble"; }), "gpipe, 1f1b and eager_1f1b");
  expect_says(refused([](Json& j) { j["model"]["hidden"] = 60; }), "such as 64");
  expect_says(refused([](Json& j) { j["data"].erase("tokenizer"); }), "tokenizer");
}

TEST(TrainConfig, ImpossibleMeshesAreRefusedWithTheNearestPossibleOne) {
  expect_says(refused([](Json& j) { j["mesh"] = {{"stages", 9}}; }), "nearest possible mesh has 6 stages");
  expect_says(refused([](Json& j) { j["mesh"] = {{"tensor", 4}}; }), "the nearest possible is 2");
  expect_says(refused([](Json& j) { j["mesh"] = {{"data", 3}}; }), "the nearest possible is 2, or a batch of 18");
  expect_says(refused([](Json& j) { j["training"]["micro_batches"] = 5; }), "the nearest possible are 4");
  expect_says(refused([](Json& j) { j["mesh"]["stages"][0]["layers"] = 6; }), "make them add up");
  expect_says(refused([](Json& j) { j["mesh"]["data"] = 2; }), "move them there");
}

TEST(Places, SkipsCrossStraightToTheStageThatNeedsThem) {
  TrainConfig config = settled(whole_file());
  config.model.u_shaped = true;
  config.stages = {{2, 1, 1}, {2, 1, 1}, {2, 2, 1}};
  const Places places(config);
  std::vector<std::vector<std::int64_t>> found;
  for (const Crossing& c : places.crossings()) found.push_back({c.value, c.from, c.to});
  // Values 0 and 1 skip from stage 0 to 2; 2 goes on to stage 1, which has both its takers; 4 goes on to stage 2.
  EXPECT_EQ(found, (std::vector<std::vector<std::int64_t>>{{0, 0, 2}, {1, 0, 2}, {2, 0, 1}, {4, 1, 2}}));
  EXPECT_EQ(places.of(3).stage, 2);
  EXPECT_EQ(places.of(3).data, 1);
  EXPECT_EQ(places.data_group(3).ranks, (std::vector<int>{2, 3}));
}

}  // namespace
}  // namespace weft::pipeline
