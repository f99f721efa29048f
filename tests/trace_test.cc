// Timelines of real runs: complete, in order, and in the format that Perfetto reads. And what a failed run tells.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/weft.h"

namespace weft {
namespace {

struct Slice {
  double begin, end;
  nlohmann::json event;
};

class Trace : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft-trace-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file() const { return (folder_ / "trace.json").string(); }

  // Runs a gemm and reduce_scatter on two paced ranks; gives the slices by category.
  std::map<std::string, std::vector<Slice>> traced(int runs, int threads) {
    WorldOptions options{.threads = threads};
    options.link = Link{.bytes_per_s = 2e9, .latency_s = 1e-6};
    options.trace = file();
    World::local(
        2,
        [&](World& world) {
          Op op = world.compile(gemm({.m = 128, .n = 128, .k = 32, .tile = {32, 32}}),
                                reduce_scatter(world.mesh({{"tp", 2}}), "tp"));
          const std::vector<float> x(128 * 32, 1.0f), w(32 * 128, 1.0f);
          for (int run = 0; run < runs; ++run) op.run(x.data(), w.data());
          op.output();
        },
        options);
    std::ifstream in(file());
    std::map<std::string, std::vector<Slice>> out;
    const nlohmann::json whole = nlohmann::json::parse(in);
    for (const auto& event : whole.at("traceEvents"))
      if (event.at("ph") == "X") {
        const double begin = event.at("ts");
        out[event.at("cat")].push_back({begin, begin + event.at("dur").get<double>(), event});
      }
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(Trace, ShowsEveryTileOfEveryRank) {
  for (const int threads : {1, 2}) {
    auto slices = traced(3, threads);
    EXPECT_EQ(slices["made"].size(), 2u * 3 * 16);  // ranks x runs x tiles
    std::vector<std::string> tiles;
    for (const Slice& s : slices["made"])
      tiles.push_back(s.event["pid"].dump() + s.event["args"]["run"].dump() + s.event["args"]["box"].dump());
    std::sort(tiles.begin(), tiles.end());
    EXPECT_EQ(std::unique(tiles.begin(), tiles.end()), tiles.end());
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);  // the parts are gone
  }
}

TEST_F(Trace, ALinkCarriesAllBytesOneAfterAnother) {
  auto slices = traced(2, 1);
  std::map<int, std::vector<Slice>> links;
  for (const Slice& s : slices["link"]) links[s.event["tid"]].push_back(s);
  ASSERT_EQ(links.size(), 2u);
  for (auto& [link, busy] : links) {
    std::int64_t bytes = 0;
    std::sort(busy.begin(), busy.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < busy.size(); ++i) {
      bytes += busy[i].event["args"]["bytes"].get<std::int64_t>();
      EXPECT_GE(busy[i].begin, i > 0 ? busy[i - 1].end - 2e-3 : 0);
      EXPECT_NEAR(busy[i].end - busy[i].begin, busy[i].event["args"]["bytes"].get<double>() / 2e9 * 1e6, 2e-3);
    }
    EXPECT_EQ(bytes, 2 * 64 * 128 * 4);
  }
}

// Slices of one thread nest or follow each other, or a viewer draws nonsense.
TEST_F(Trace, SlicesOfAThreadNest) {
  auto slices = traced(3, 1);
  std::map<int, std::vector<Slice>> ranks;
  for (const char* category : {"made", "stored", "waited", "trigger"})
    for (const Slice& s : slices[category]) ranks[s.event["pid"]].push_back(s);
  for (auto& [rank, all] : ranks) {
    std::sort(all.begin(), all.end(),
              [](const Slice& a, const Slice& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
    std::vector<double> open;
    for (const Slice& s : all) {
      while (!open.empty() && open.back() <= s.begin + 2e-3) open.pop_back();
      EXPECT_LE(s.end, open.empty() ? s.end : open.back() + 2e-3) << s.event.dump();
      open.push_back(s.end);
    }
  }
}

// A run that was killed while a rank joined the parts leaves its lock and parts of ranks that have not ended now.
TEST_F(Trace, LeftoversOfAKilledRunAreNoObstacle) {
  for (const char* left : {".join", ".0", ".1"}) std::ofstream(file() + left) << "left";
  EXPECT_EQ(traced(1, 1)["link"].empty(), false);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Trace, AFileThatCannotBeWrittenIsRefused) {
  WorldOptions options;
  options.trace = (folder_ / "no" / "such" / "folder.json").string();
  EXPECT_THROW(World::local(
                   1, [](World&) {}, options),
               Error);
}

// Rank 1 fails after a run: rank 0, in the middle of its next, tells what it did itself before it gave up.
TEST(FlightRecorder, AFailedRunTellsWhatItDidLast) {
  std::string record;
  try {
    World::local(2, [&](World& world) {
      Op op = world.compile(gemm({.m = 64, .n = 64, .k = 16, .tile = {32, 32}}),
                            reduce_scatter(world.mesh({{"tp", 2}}), "tp"));
      const std::vector<float> x(64 * 16, 1.0f), w(16 * 64, 1.0f);
      op.run(x.data(), w.data());
      op.output();
      if (world.rank() == 1) fail(Code::internal, "rank 1 gives up");
      try {
        op.run(x.data(), w.data());
        op.output();
        op.run(x.data(), w.data());
        op.output();
      } catch (const Error& error) {
        record = error.record();
        throw;
      }
    });
    FAIL() << "the run should have failed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 gives up");
  }
  EXPECT_NE(record.find("run 0"), std::string::npos) << record;
  EXPECT_NE(record.find("tile 1 [32:64, 32:64] to rank 1"), std::string::npos) << record;
  EXPECT_NE(record.find("waited"), std::string::npos) << record;
}

}  // namespace
}  // namespace weft
