#include "weft/reshard/manifest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/cluster/data_file.h"
#include "weft/io/fuzz_test.h"
#include "weft/reshard/manifest_words.h"

namespace weft {
namespace {

// Two stages of tensor parallel 2 to one placement of 2, a fused tensor and a plain one a layer.
nlohmann::json small_manifest() {
  return nlohmann::json::parse(R"json({
    "name": "two-stages", "source": "test", "params": {"layers": 4, "hidden": 64, "tp": 2}, "dtype": "bf16",
    "network": {"hosts": [{"count": 2, "devices": "tp", "nics": 2}, {"count": 1, "devices": 4}],
                "nic": "10gbit", "latency": "10us", "local": "10GB/s"},
    "placements": [{"name": "stage{s}", "for": "s in 0..1", "host": "s", "axes": "tp={tp}"},
                   {"name": "rollout", "host": 2, "devices": 2, "axes": "tp={tp}"}],
    "tensors": [
      {"name": "{i}.qkv", "for": "i in 0..layers-1", "shape": [4, 6, "hidden"], "from": "stage{i / 2}", "from_spec": "S(tp),R,R",
       "to": "rollout", "to_spec": "S(tp),R,R", "to_dtype": "f32",
       "parts": [{"name": "{i}.q", "shape": [4, 4, "hidden"], "at": [0, 0, 0]},
                 {"name": "{i}.kv", "shape": [4, 2, "hidden"], "at": [0, 4, 0], "from_spec": "R,R,S(tp)"}]
},
      {"name": "head", "shape": ["hidden", 10], "from": "stage1", "from_spec": "R,R", "to": "rollout", "to_spec": "S(tp),R"}],
    "scale": {"param": "hidden", "multiple": 4},
    "small": {
  "why" : "one layer", "params" : { "layers" : 1 }
}
})json");
}

Manifest parsed(const nlohmann::json& json, const ManifestOptions& options = {}) {
  return parse_manifest(json.dump(), "m.json", options);
}

TEST(Manifest, LoopsAndParametersFillTheTemplates) {
  const Manifest m = parsed(small_manifest());
  ASSERT_EQ(m.reshard.transfers.size(), 5u);
  const Transfer& third = m.reshard.transfers[2];
  EXPECT_EQ(third.destination.name, "2.qkv");
  EXPECT_EQ(third.destination.shape, (Shape{4, 6, 64}));
  EXPECT_EQ(third.destination.dtype, Dtype::f32);
  ASSERT_EQ(third.parts.size(), 2u);
  EXPECT_EQ(third.parts[1].tensor.name, "2.kv");
  EXPECT_EQ(third.parts[1].at, (std::vector<std::int64_t>{0, 4, 0}));
  EXPECT_EQ(to_string(third.parts[0].tensor.sharding), "S(tp),R,R");
  EXPECT_EQ(to_string(third.parts[1].tensor.sharding), "R,R,S(tp)");
  EXPECT_EQ(m.reshard.placements[at(third.parts[0].tensor.placement)].name, "stage1");
}

TEST(Manifest, RanksCountHostByHostAndUseTheFirstDevices) {
  const Manifest m = parsed(small_manifest());
  EXPECT_EQ(m.reshard.num_ranks, 8);
  EXPECT_EQ(m.reshard.placements[1].ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(m.reshard.placements[2].ranks, (std::vector<int>{4, 5}));
  EXPECT_EQ(m.network.nics.size(), 5u);  // two a host of the stages, one at the rollout
  EXPECT_EQ(m.network.nic_of, (std::vector<int>{0, 1, 2, 3, 4, 4, 4, 4}));
  EXPECT_EQ(m.network.host_of(7), 2);
  EXPECT_DOUBLE_EQ(m.network.nics[0].bytes_per_s, 1.25e9);
}

TEST(Manifest, ScaleAndSmallChangeTheirParameters) {
  EXPECT_EQ(parsed(small_manifest(), {.scale = 0.25}).reshard.transfers[0].destination.shape, (Shape{4, 6, 16}));
  EXPECT_EQ(parsed(small_manifest(), {.scale = 0.001}).params.at("hidden"), 4);  // never below one multiple
  EXPECT_EQ(parsed(small_manifest(), {.small = true}).reshard.transfers.size(), 2u);
  EXPECT_NE(refusal([] { parsed(small_manifest(), {.scale = 2}); }).find("at most 1"), std::string::npos);
}

// Where `path` (a JSON pointer) is `value`, the refusal holds all of `words`.
void expect_refusal(const std::string& path, const nlohmann::json& value, const std::vector<std::string>& words) {
  nlohmann::json json = small_manifest();
  const nlohmann::json::json_pointer where(path);
  if (value.is_discarded())
    json.at(where.parent_pointer()).erase(where.back());
  else
    json[where] = value;
  const std::string said = refusal([&] { parsed(json); });
  EXPECT_EQ(said.rfind("m.json", 0), 0u) << said;
  for (const std::string& word : words)
    EXPECT_NE(said.find(word), std::string::npos) << word << " is missing in: " << said;
}

TEST(Manifest, RefusalsNameFileKeyAndRemedy) {
  const nlohmann::json gone(nlohmann::json::value_t::discarded);
  expect_refusal("/tensors/1/from", "stage7", {"tensors[1]", "no placement \"stage7\"", "stage0, stage1"});
  expect_refusal("/tensors/1/from", gone, {"tensors[1]", "\"from\" is missing"});
  expect_refusal("/tensors/1/to_spec", gone, {"tensors[1]", "to_spec"});
  expect_refusal("/tensors/1/shape", nlohmann::json{"width", 10}, {"tensors[1]", "shape", "width", "params"});
  expect_refusal("/tensors/1/shape", nlohmann::json{0, 10}, {"tensors[1]", "shape", "0"});
  expect_refusal("/tensors/1/to_spec", "S(tp),S(tp)", {"axis \"tp\""});
  expect_refusal("/tensors/1/to_spec", "S(tp)", {"m.json"});
  expect_refusal("/tensors/1/to_dtype", "i32", {"head", "i32"});
  expect_refusal("/tensors/1/dtype", "f64", {"tensors[1]", "dtype", "f64"});
  expect_refusal("/tensors/0/for", "i = 0", {"tensors[0]", "\"for\"", "i in 0..79"});
  expect_refusal("/tensors/0/parts/1/at", nlohmann::json{0, 3, 0}, {"0.qkv"});
  expect_refusal("/tensors/0/colour", "red", {"tensors[0]", "colour"});
  expect_refusal("/placements/0/axes", "tp=3", {"placements[0]", "axes", "multiply to 2"});
  expect_refusal("/placements/1/host", 3, {"placements[1]", "\"host\" is 3", "0 to 2"});
  expect_refusal("/placements/1/name", "stage0", {"placements[1]", "its own name"});
  expect_refusal("/network/nic", "fast", {"network", "nic", "10gbit"});
  expect_refusal("/network/hosts/0/devices", "x", {"hosts[0]", "devices"});
}

TEST(Manifest, AxesAreHostsByDevicesOrNamed) {
  EXPECT_EQ(parse_axes("2x4"), (std::vector<Axis>{{"host", 2}, {"device", 4}}));
  EXPECT_EQ(parse_axes("8"), (std::vector<Axis>{{"device", 8}}));
  EXPECT_EQ(parse_axes("dp=2,tp=4"), (std::vector<Axis>{{"dp", 2}, {"tp", 4}}));
  for (const char* bad : {"", "2x", "x4", "2x2x2", "dp=2,4", "dp=", "two"})
    EXPECT_NE(refusal([&] { parse_axes(bad); }).find("2x4 or dp=2,tp=4"), std::string::npos) << bad;
}

// Spoiled files: taken or refused in a sentence, and never a crash or all of memory.
TEST(Manifest, MutantsAreTakenOrRefused) {
  const FuzzCounts counts =
      fuzz(small_manifest().dump(), 3000, [](const std::string& text) { parse_manifest(text, "m.json"); });
  EXPECT_GT(counts.refused, 1000);
  EXPECT_GT(counts.taken, 10) << "some changes fall on names";
}

double elements(const Manifest& manifest) {
  double sum = 0;
  for (const Transfer& transfer : manifest.reshard.transfers) sum += whole(transfer.destination.shape).volume();
  return sum;
}

TEST(Manifest, ThoseShippedHaveTheParametersOfTheirModels) {
  EXPECT_NEAR(elements(load_manifest("llama-2-70b")), 68.98e9, 0.01e9);
  const Manifest kimi = load_manifest("kimi-k2");
  EXPECT_NEAR(elements(kimi), 1.026e12, 0.01e12);
  EXPECT_EQ(kimi.reshard.num_ranks, 256 + 128);
  EXPECT_EQ(kimi.network.nics.size(), 384u);
  EXPECT_EQ(elements(load_manifest("gpt-1.3b")), 16.0 * 1024 * 2048);
}

TEST(Manifest, ThoseShippedHaveSmallVersionsAndScale) {
  const std::vector<std::string> names = data_file_names("workloads/reshard");
  ASSERT_EQ(names.size(), 6u);
  for (const std::string& name : names) {
    const Manifest full = load_manifest(name), small = load_manifest(name, {.small = true});
    EXPECT_FALSE(small.small_why.empty()) << name;
    EXPECT_LE(small.reshard.num_ranks, 16) << name;
    EXPECT_LT(elements(small), 64e6) << name;
    const double ratio = elements(load_manifest(name, {.scale = 1.0 / 64})) / elements(full);
    EXPECT_NEAR(ratio, 1.0 / 64, 0.2 / 64) << name;
  }
}

}  // namespace
}  // namespace weft
