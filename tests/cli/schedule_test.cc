// `weft schedule` as its users see it: keys, pictures, files, the paper's pipelines, refusals with exit code 2.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/json.h"
#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

std::string path_of(const std::string& name) { return ::testing::TempDir() + "/weft_schedule_" + name; }

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ScheduleCommand, OneScheduleHasItsKeys) {
  const Json out =
      parsed(weft("schedule --kind eager_1f1b --stages 4 --micro-batches 8 --forward-us 100 --backward-us 200 "
                  "--transfer-us 50 --json"));
  expect_keys(out, {"schedule", "throughput", "bubble", "peak_activations", "time_us", "bound", "ok"});
  EXPECT_EQ(out["peak_activations"].dump(), "[7,5,3,1]");
  EXPECT_NEAR(out["time_us"].get<double>(), 3600, 1e-6);
  EXPECT_NEAR(out["throughput"].get<double>(), 8 / 3600e-6, 1e-6);
  EXPECT_LE(out["bound"]["time_us"].get<double>(), out["time_us"].get<double>());
}

TEST(ScheduleCommand, DrawsEveryStage) {
  const Ended ended = weft("schedule --kind gpipe --stages 2 --micro-batches 2 --transfer-us 0");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("  stage 0  aaa"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("  stage 1  ..."), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("peak activations per stage: 2 2"), std::string::npos) << ended.out;
}

TEST(ScheduleCommand, WritesPictureTimelineAndSchedule) {
  const std::string svg = path_of("a.svg"), trace = path_of("a.trace"), saved = path_of("a.json"),
                    kinds = path_of("k.svg");
  ASSERT_EQ(weft({"schedule", "--kind", "zero-bubble", "--svg", svg, "--trace", trace, "--save", saved}).code, 0);
  EXPECT_NE(read(svg).find("<svg"), std::string::npos);
  EXPECT_NE(read(svg).find("backward_weight of micro-batch 7"), std::string::npos);
  EXPECT_GT(Json::parse(read(trace))["traceEvents"].size(), 4u * 8 * 3);
  const Json loaded = parsed(weft({"schedule", "--load", saved, "--json"}));
  EXPECT_EQ(loaded["time_us"], parsed(weft("schedule --kind zero_bubble --json"))["time_us"]);
  ASSERT_EQ(weft({"schedule", "--compare", "--kind", "1f1b,eager_1f1b", "--svg", kinds}).code, 0);
  EXPECT_NE(read(kinds).find("eager_1f1b"), std::string::npos);
  EXPECT_EQ(read(kinds).find("zero_bubble"), std::string::npos);
  for (const std::string& path : {svg, trace, saved, kinds}) std::remove(path.c_str());
}

TEST(ScheduleCommand, ABrokenScheduleIsRefusedWithItsProblem) {
  const std::string path = path_of("broken.json");
  std::ofstream(path) << R"({"name": "x", "stages": 2, "micro_batches": 2, "chunks": 1,
                             "items": [["f0", "b0", "f1", "b1"], ["f0", "f1", "b0", "b1"]]})";
  const Ended text = weft({"schedule", "--load", path}), json = weft({"schedule", "--load", path, "--json"});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("refused: schedule \"x\" cannot run\n  stages wait for each other: stage 0"),
            std::string::npos)
      << text.out;
  EXPECT_EQ(json.code, 1);
  EXPECT_FALSE(Json::parse(json.out)["ok"].get<bool>());
  std::remove(path.c_str());
}

TEST(ScheduleCommand, ComparesAtEqualMemory) {
  const Json out = parsed(weft("schedule --compare --micro-batches 16 --transfer-us 100 --json"));
  EXPECT_EQ(out["memory"], 4);
  ASSERT_EQ(out["rows"].size(), 5u);
  std::map<std::string, Json> rows;
  for (const Json& row : out["rows"]) rows[row["kind"]] = row;
  EXPECT_GE(rows["1f1b"]["free"]["time_us"].get<double>() / rows["eager_1f1b"]["free"]["time_us"].get<double>(), 1.25);
  for (const auto& [kind, row] : rows)
    for (const Json& peak : row["within"]["peak_activations"]) EXPECT_LE(peak.get<double>(), 4) << kind;
}

TEST(ScheduleCommand, SearchIsAtLeastAsGoodAsTheBestNamedOne) {
  const Json out = parsed(weft("schedule --search --stages 8 --micro-batches 32 --memory 10 --transfer-us 150 --json"));
  expect_keys(out, {"time_us", "named", "found", "speedup", "bound", "optimal", "peak_activations", "looked_at"});
  EXPECT_GE(out["speedup"].get<double>(), 1.05);
  EXPECT_LE(out["bound"]["time_us"].get<double>(), out["time_us"].get<double>());
  for (const Json& peak : out["peak_activations"]) EXPECT_LE(peak.get<double>(), 10);
}

// Every step of the paper's system helps, and the whole is close to the bound that sends one element.
TEST(ScheduleCommand, PresetsPredictThePapersPipelines) {
  const Json out = parsed(weft("schedule --preset all --json"));
  ASSERT_EQ(out["presets"].size(), 4u);
  for (const Json& preset : out["presets"]) {
    std::map<std::string, double> time;
    for (const Json& row : preset["rows"]) time[row["name"]] = row["time_us"].get<double>();
    ASSERT_EQ(time.size(), 7u) << preset["name"];
    const double whole = time["broadcast + overlap + eager_1f1b"];
    EXPECT_GE(time["send_recv"], time["local_allgather"]) << preset["name"];
    EXPECT_GE(time["local_allgather"] * 1.01, time["broadcast"]) << preset["name"];
    EXPECT_GT(time["broadcast"], time["broadcast + overlap"]) << preset["name"];
    EXPECT_GE(time["broadcast + overlap"], whole) << preset["name"];
    EXPECT_GE(whole, time["broadcast + overlap + search"]) << preset["name"];
    EXPECT_GE(whole, time["one element"]) << preset["name"];
    EXPECT_LE(whole, 1.07 * time["one element"]) << preset["name"];
    EXPECT_GE(time["broadcast + overlap + search"], preset["bound"]["time_us"].get<double>() * (1 - 1e-9));
  }
}

TEST(ScheduleCommand, BadInputIsOneSentenceAndExitCodeTwo) {
  const std::pair<const char*, const char*> cases[] = {
      {"--kind 2f2b", "unknown kind of schedule \"2f2b\"; use one of gpipe, 1f1b"},
      {"--stages 0", "0 stages; use 1 to"},
      {"--stages 0x4", "--stages is \"0x4\"; give a whole number"},
      {"--search --seed -1", "--seed is -1; use 0 or more"},
      {"--micro-batches -3", "-3 micro-batches; use 1 to"},
      {"--kind interleaved_1f1b --micro-batches 6", "6 is no multiple; use 4 or 8"},
      {"--forward-us 1,2", "--forward-us has 2 values; give one, or 4, one per stage"},
      {"--transfer-us 1,2", "--transfer-us has 2 values; give one, or 3, one per boundary"},
      {"--backward-us -1", "--backward-us has -1; give 0 to"},
      {"--transfer-back-us nan", "--transfer-back-us has nan; give 0 to"},
      {"--weight-share 2", "--weight-share is 2; give 0 to 1"},
      {"--memory -1", "memory of -1 activations; use 1 or more"},
      {"--search --compare", "2 modes at once; give one"},
      {"--kind 1f1b,gpipe", "--kind has 2 kinds; give one, or --compare"},
      {"--search --budget 0", "a budget of 0 items"},
      {"--preset bert", "unknown pipeline \"bert\"; use one of gpt-1.3b"},
      {"--preset all --svg x.svg", "leave out --preset"},
      {"--compare --save x.json", "leave out --compare"},
      {"--load /nowhere.json", "/nowhere.json"},
      {"--svg /nowhere/x.svg", "/nowhere/x.svg"},
      {"--stages 64 --micro-batches 1024 --svg x.svg", "too many for a picture"},
      {"--forward-us abc", "abc"},
  };
  for (const auto& [flags, sentence] : cases) {
    const Ended ended = weft(std::string("schedule ") + flags);
    EXPECT_EQ(ended.code, 2) << flags;
    EXPECT_NE(ended.err.find(sentence), std::string::npos) << flags << ": " << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << flags << ": " << ended.err;
  }
}

TEST(ScheduleCommand, HelpHasAnExample) {
  const Ended ended = weft("schedule --help");
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.out.find("Example:\n  weft schedule --kind eager_1f1b"), std::string::npos) << ended.out;
}

}  // namespace
}  // namespace weft::testing
