// `weft spd distill` as its users see it: on the bundled model it writes an spd file whose weights fit, goes on after
// it was killed, and refuses what it cannot do.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/llm/spd/spd_file.h"
#include "weft/llm/spd/spd_model.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kModel = std::string(WEFT_SOURCE) + "/models/weft-16";

class DistillCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("weft_distill_cli_{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string words(const std::string& out) const {
    return fmt::format(
        "spd distill --model {0} --tp 2 --text {0}/calibration.txt --window 64 --samples 17 --epochs 4 --lr 3e-4 "
        "--blocks 0-2 --threads 1 --out {1} --json",
        kModel, file(out));
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
};

TEST_F(DistillCommand, WritesWeightsThatFitAndGoesOnAfterAKill) {
  const Ended ended = weft(words("whole"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json found = Json::parse(ended.out);
  ASSERT_EQ(found["blocks"].size(), 3u);
  for (const Json& block : found["blocks"])
    EXPECT_LT(block["loss_after"].get<double>(), block["loss_before"].get<double>()) << block;
  const SpdFile spd = load_spd(file("whole/repaired.spd"));
  check_spd_weights(spd);
  EXPECT_EQ(num_dropped(spd.blocks), 3);
  const ModelSource source = open_model(kModel, spd, 2);
  EXPECT_NE(source.repaired->find("model.layers.2.mlp.down_proj.weight"), nullptr);
  EXPECT_EQ(source.repaired->find("model.layers.3.mlp.down_proj.weight"), nullptr);

  std::istringstream in(words("broken"));
  const std::vector<std::string> split{std::istream_iterator<std::string>(in), {}};
  const Running running = start_weft(split);
  while (alive(running.pid) && !fs::exists(file("broken/state/block-0000.safetensors")))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(running.pid, SIGKILL);
  wait_for(running);
  ASSERT_FALSE(fs::exists(file("broken/repaired.spd"))) << "it was too quick to be killed";
  const Ended again = weft(words("broken"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out)["blocks"][0]["resumed"], true);
  for (const char* name : {"repaired.spd", "repaired.safetensors"})
    EXPECT_TRUE(bytes_of(file("whole/" + std::string(name))) == bytes_of(file("broken/" + std::string(name)))) << name;
}

TEST_F(DistillCommand, AnInterruptionSaysThatItCanGoOn) {
  std::istringstream in(words("stopped"));
  const Running running = start_weft({std::istream_iterator<std::string>(in), {}});
  while (alive(running.pid) && !fs::exists(file("stopped/state/block-0000.safetensors")))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(running.pid, SIGINT);
  const Ended ended = wait_for(running);
  EXPECT_EQ(ended.code, 128 + SIGINT) << ended.err;
  EXPECT_NE(ended.err.find("the same command goes on from there"), std::string::npos) << ended.err;
}

TEST_F(DistillCommand, RefusesWhatItCannotDo) {
  const auto refuses = [&](const std::string& flags, const std::string& why) {
    const Ended ended = weft(
        fmt::format("spd distill --model {0} --text {0}/calibration.txt --out {1} {2}", kModel, file("no"), flags));
    EXPECT_EQ(ended.code, 2) << flags;
    EXPECT_NE(ended.err.find(why), std::string::npos) << ended.err;
  };
  refuses("--tp 1", "nothing to drop");
  refuses("--tp 4 --blocks 3,16", "\"16\" is no block");
  refuses("--tp 4 --blocks 5-2", "runs backwards");
  refuses("--tp 4 --head-groups x", "\"x\" is no block");
  refuses("--tp 4 --inputs other", "sync, dropped or chained");
  refuses("--tp 4 --samples 3 --batch 8 --window 32", "fewer than the batch");
}

}  // namespace
}  // namespace weft::testing
