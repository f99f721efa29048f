// `weft train` as its users see it: it writes a model that `weft generate` reads, goes on after a rank was killed with
// the same losses, and refuses what it cannot do in one sentence.
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"

#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kModel = std::string(WEFT_SOURCE) + "/models/weft-16";

class TrainCommand : public ::testing::Test {
 protected:
  std::string config(const std::string& name, const std::function<void(Json&)>& change = {}) const {
    Json json = {{"model", {{"hidden", 32}, {"layers", 4}, {"heads", 4}, {"mlp", 64}, {"sequence", 16}}},
                 {"data", {{"text", kModel + "/prompt.txt"}, {"tokenizer", kModel}}},
                 {"training", {{"steps", 6}, {"batch", 4}, {"micro_batches", 2}, {"lr", 0.003}}},
                 {"mesh", {{"stages", 2}}},
                 {"out", folder_.file(name)}};
    if (change) change(json);
    return folder_.write(name + ".json", json.dump());
  }
  ScratchFolder folder_;
};

TEST_F(TrainCommand, WritesAModelThatGenerates) {
  const std::string metrics = folder_.file("m.jsonl"), svg = folder_.file("loss.svg");
  const Json out = parsed(weft({"train", "--config", config("a"), "--metrics", metrics, "--svg", svg, "--json"}));
  expect_keys(out, {"schedule", "throughput", "peak_activations", "loss", "steps", "model"});
  EXPECT_EQ(out["loss"].size(), 6u);
  EXPECT_LT(out["loss"][5], out["loss"][0]);
  EXPECT_EQ(out["peak_activations"].dump(), "[2.0,1.0]");
  std::ifstream lines(metrics);
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) EXPECT_EQ(Json::parse(line)["step"], ++count);
  EXPECT_EQ(count, 6);
  EXPECT_NE(std::ifstream(svg).peek(), std::ifstream::traits_type::eof());
  const Ended text = weft({"generate", "--model", folder_.file("a"), "--prompt", "The", "--max-tokens", "3", "--json"});
  EXPECT_EQ(text.code, 0) << text.err;
}

TEST_F(TrainCommand, GoesOnFromWhereItEnded) {
  const std::string file = config("more", [](Json& json) { json["checkpoint_every"] = 4; });
  const Ended first = weft({"train", "--config", file, "--resume"});  // 6 steps
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("no checkpoint in"), std::string::npos) << first.out;
  const Json more = parsed(weft({"train", "--config", file, "--resume", "--steps", "8", "--json"}));
  EXPECT_EQ(more["resumed_at"], 6);
  EXPECT_EQ(more["loss"].size(), 2u);
}

TEST_F(TrainCommand, SchedulesHaveTheSameLosses) {
  const auto losses = [&](const std::string& schedule) {
    return parsed(weft({"train", "--config", config("s"), "--schedule", schedule, "--json"}))["loss"];
  };
  EXPECT_EQ(losses("1f1b"), losses("eager_1f1b"));
  EXPECT_EQ(losses("1f1b"), losses("gpipe"));
}

TEST_F(TrainCommand, AKilledRankStopsAllAndTheRestGoesOnWithTheSameLosses) {
  const auto long_one = [](Json& json) { json["training"]["steps"] = 40, json["checkpoint_every"] = 5; };
  const Json whole = parsed(weft({"train", "--config", config("whole", long_one), "--json"}));
  const std::string file = config("broken", long_one);
  const Running running = start_weft({"train", "--config", file, "--json"});
  while (alive(running.pid) && !fs::exists(folder_.file("broken/checkpoint-000005.safetensors")))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::vector<pid_t> ranks = children_of(running.pid);
  ASSERT_EQ(ranks.size(), 2u) << "it was too quick to be killed";
  const auto killed = std::chrono::steady_clock::now();
  kill(ranks[1], SIGKILL);
  const Ended ended = wait_for(running);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(2));
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("killed by signal 9"), std::string::npos) << ended.err;
  const Json rest = parsed(weft({"train", "--config", file, "--resume", "--json"}));
  const auto before = rest["resumed_at"].get<std::size_t>();
  EXPECT_GE(before, 5u);
  ASSERT_EQ(rest["loss"].size(), 40 - before);
  for (std::size_t i = 0; i < rest["loss"].size(); ++i) EXPECT_EQ(rest["loss"][i], whole["loss"][before + i]);
}

// A limit on the size of files refuses in the middle of a write, as a full disk does. A checkpoint is three times the
// weights; the limit of 4 MB lets the memory that ranks share be, which holds them once.
TEST_F(TrainCommand, AFullDiskKeepsTheLastGoodCheckpoint) {
  const auto saving = [](Json& json) {  // a rate that does not depend on the number of steps
    json["training"].update({{"steps", 9}, {"warm_up", 0}, {"last_lr", 1}});
    json["checkpoint_every"] = 3;
  };
  const Json whole = parsed(weft({"train", "--config", config("whole", saving), "--json"}));
  const std::string file = config("full", saving), last = folder_.file("full/checkpoint-000003.safetensors");
  ASSERT_EQ(weft({"train", "--config", file, "--steps", "3", "--json"}).code, 0);
  const auto bytes = fs::file_size(last);
  ASSERT_GT(bytes, 6u << 20) << "or the limit would not be met";
  const Ended ended = wait_for(start_program(
      {"bash", "-c", fmt::format("ulimit -f 4096; exec {} train --config {} --resume --json", WEFT_BINARY, file)}));
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_NE(ended.err.find("cannot write \"" + folder_.file("full/checkpoint-000006.safetensors")), std::string::npos)
      << ended.err;
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  EXPECT_EQ(fs::file_size(last), bytes);
  for (const auto& entry : fs::directory_iterator(folder_.file("full")))
    EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
  const Json rest = parsed(weft({"train", "--config", file, "--resume", "--json"}));
  EXPECT_EQ(rest["resumed_at"], 3);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(rest["loss"][i], whole["loss"][3 + i]);
}

// A folder of its own, on a disk of 64 KB.
TEST_F(TrainCommand, ADiskThatIsFullIsOneSentence) {
  const std::string small = folder_.file("small");
  fs::create_directory(small);
  if (::mount("none", small.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "only root mounts";
  const Ended ended = weft({"train", "--config", config("small"), "--json"});
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_NE(ended.err.find("No space left on device"), std::string::npos) << ended.err;
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  ::umount(small.c_str());
}

TEST_F(TrainCommand, RefusesInOneSentence) {
  const auto refused = [&](const std::function<void(Json&)>& change, const std::string& part) {
    const Ended ended = weft({"train", "--config", config("bad", change)});
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  };
  refused([](Json& j) { j["mesh"] = {{"tensor", 3}}; }, "the nearest possible is 2");
  refused([](Json& j) { j["data"]["text"] = "no/such/file"; }, "no/such/file");
  refused([](Json& j) { j["data"]["tokenizer"] = "no/such/folder"; }, "no/such/folder");
  refused([](Json& j) { j["training"]["dtype"] = "f64"; }, "use \"f32\" or \"bf16\"");
  refused([](Json& j) { j["model"]["sequence"] = 60000; }, "give more text");
  EXPECT_EQ(weft({"train", "--config", folder_.file("none.json")}).code, 2);
}

TEST_F(TrainCommand, ComparesSixWays) {
  const Json out = parsed(
      weft({"train", "--config", config("c"), "--compare", "--rounds", "1", "--link", "100mbit,20us,nic", "--json"}));
  expect_keys(out, {"styles", "transfer_ratio", "gain", "over_bound", "aa_band", "costs"});
  ASSERT_EQ(out["styles"].size(), 6u);
  for (const Json& style : out["styles"]) {
    EXPECT_GT(style["predicted_us"].get<double>(), 0) << style;
    for (const char* key : {"work_us", "waited_us"}) {
      ASSERT_EQ(style[key].size(), 2u) << style;
      EXPECT_GT(style[key][1].get<double>(), 0) << style;
    }
  }
  EXPECT_EQ(out["styles"][4]["peak_activations"].dump(), "[2.0,1.0]");  // of two micro-batches
}

}  // namespace
}  // namespace weft::testing
