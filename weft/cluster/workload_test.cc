#include "weft/cluster/workload.h"

#include <cstdlib>
#include <filesystem>
#include <functional>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/refusal_test.h"
#include "weft/cluster/cluster.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Sets WEFT_DATA for a test and puts back what was there.
class DataFolder {
 public:
  explicit DataFolder(const std::string& folder) {
    if (const char* old = std::getenv("WEFT_DATA")) old_ = old;
    setenv("WEFT_DATA", folder.c_str(), 1);
  }
  ~DataFolder() {
    if (old_.empty())
      unsetenv("WEFT_DATA");
    else
      setenv("WEFT_DATA", old_.c_str(), 1);
  }

 private:
  std::string old_;
};

std::string source_tree() { return fs::path(__FILE__).parent_path().parent_path().parent_path().string(); }

Workload shipped(const std::string& name) {
  const DataFolder folder(source_tree());
  return load_workload(name);
}

std::string text_of(const std::string& name) {
  return read_text_file(source_tree() + "/workloads/" + name + ".json", 1 << 20);
}

SubLayer named(const std::vector<SubLayer>& layers, const std::string& name) {
  for (const SubLayer& layer : layers)
    if (layer.name == name) return layer;
  ADD_FAILURE() << "no sub-layer " << name;
  return {};
}

void expect_gemm(const SubLayer& layer, std::int64_t m, std::int64_t n, std::int64_t k) {
  EXPECT_EQ(layer.work, WorkKind::gemm) << layer.name;
  EXPECT_EQ(layer.m, m) << layer.name;
  EXPECT_EQ(layer.n, n) << layer.name;
  EXPECT_EQ(layer.k, k) << layer.name;
}

double flops_per_sent_element(const SubLayer& layer, int ranks) {
  return flops(layer) / (sent_bytes(layer, ranks) / size_of(layer.dtype));
}

TEST(Workload, EveryShippedFileLoadsUnderItsName) {
  const DataFolder folder(source_tree());
  const std::vector<std::string> names = workload_names();
  EXPECT_EQ(names, (std::vector<std::string>{"deepseek-v3-moe", "dlrm-128", "dlrm-v2", "gpt-3", "llama-2-70b",
                                             "mega-gpt-2", "mixtral-8x7b", "mt-nlg", "palm", "t-nlg"}));
  for (const std::string& name : names) {
    const Workload workload = load_workload(name);
    EXPECT_EQ(workload.name, name);
    EXPECT_GT(workload.source.size(), 40u) << name;
    EXPECT_GT(workload.scale_down.why.size(), 40u) << name;
    for (int ranks : workload.degrees) EXPECT_FALSE(sub_layers(workload, {.ranks = ranks}).empty()) << name;
  }
  EXPECT_EQ(load_workload(source_tree() + "/workloads/t-nlg.json"), load_workload("t-nlg"));
}

TEST(Workload, TheFoldersOfTheProgramAreSearched) {
  if (std::getenv("WEFT_DATA")) GTEST_SKIP() << "WEFT_DATA is set";
  for (const std::string& name : workload_names()) EXPECT_EQ(load_workload(name).name, name);
}

TEST(Workload, TuringHasTheSubLayersOfT3) {
  const Workload w = shipped("t-nlg");
  for (int tp : {8, 16}) {
    const auto layers = sub_layers(w, {.ranks = tp});
    const std::int64_t tokens = 8 * 1024, h = 4256;
    expect_gemm(named(layers, "op"), tokens, h, h / tp);
    expect_gemm(named(layers, "fc2"), tokens, h, 4 * h / tp);
    expect_gemm(named(layers, "fc1_bwd"), tokens, h, 4 * h / tp);
    expect_gemm(named(layers, "ip_bwd"), tokens, h, 3 * h / tp);
    for (const SubLayer& layer : layers) {
      const bool reduces =
          layer.name == "op" || layer.name == "fc2" || layer.name == "fc1_bwd" || layer.name == "ip_bwd";
      EXPECT_EQ(layer.after, reduces ? Collective::all_reduce : Collective::none) << layer.name;
      EXPECT_EQ(layer.before, Collective::none) << layer.name;
    }
    EXPECT_DOUBLE_EQ(sent_bytes(named(layers, "op"), tp), 2.0 * (tp - 1) / tp * static_cast<double>(tokens * h) * 2);
  }
}

TEST(Workload, ReduceScatterGathersBeforeTheNextProduct) {
  const auto layers = sub_layers(shipped("mega-gpt-2"), {.ranks = 8, .reduction = Reduction::reduce_scatter});
  for (const char* name : {"op", "fc2", "ip_bwd", "fc1_bwd"})
    EXPECT_EQ(named(layers, name).after, Collective::reduce_scatter) << name;
  for (const char* name : {"ip", "fc1", "op_bwd", "fc2_bwd"})
    EXPECT_EQ(named(layers, name).before, Collective::all_gather) << name;
  // The same bytes as by all_reduce, but for the second gathering of x for the weights' gradients.
  double scattered = 0, reduced = 0;
  for (const SubLayer& layer : layers)
    if (layer.name.find("wgrad") == std::string::npos) scattered += sent_bytes(layer, 8);
  for (const SubLayer& layer : sub_layers(shipped("mega-gpt-2"), {.ranks = 8})) reduced += sent_bytes(layer, 8);
  EXPECT_DOUBLE_EQ(scattered, reduced);
}

TEST(Workload, BlocksHaveTheFlopsOfTheirParameters) {
  // Forward, all ranks: 2 flops a weight and token, and attention's scores and values.
  struct Case {
    const char* name;
    double weights;
  };
  for (const Case& c : {Case{"llama-2-70b", 8192.0 * (8192 * 2 + 2 * 1024) + 3.0 * 8192 * 28672},
                        Case{"mixtral-8x7b", 4096.0 * (4096 * 2 + 2 * 1024 + 8) + 2 * 3.0 * 4096 * 14336},
                        Case{"deepseek-v3-moe", 7168.0 * (1536 + 576 + 256) + 1536.0 * 24576 + 512.0 * 32768 +
                                                    16384.0 * 7168 + 9 * 3.0 * 7168 * 2048}}) {
    const Workload w = shipped(c.name);
    double sum = 0;
    for (const SubLayer& layer : sub_layers(w, {.ranks = 8}, Phase::forward))
      if (layer.work == WorkKind::gemm) sum += 8 * flops(layer);
    const double gemm_and_router = 2 * c.weights * w.tokens();
    EXPECT_NEAR(sum / gemm_and_router, 1, 0.002) << c.name;
  }
}

TEST(Workload, BackwardCostsTwiceForward) {
  for (const char* name : {"t-nlg", "llama-2-70b", "mixtral-8x7b", "deepseek-v3-moe"}) {
    double forward = 0, backward = 0;
    for (const SubLayer& layer : sub_layers(shipped(name), {.ranks = 8}))
      (layer.phase == Phase::forward ? forward : backward) += flops(layer);
    EXPECT_DOUBLE_EQ(backward, 2 * forward) << name;
  }
}

TEST(Workload, ExpertsExchangeEveryRoutedToken) {
  const Workload w = shipped("deepseek-v3-moe");
  const auto layers = sub_layers(w, {.ranks = 64});
  const SubLayer fc1 = named(layers, "expert_fc1"), fc2 = named(layers, "expert_fc2");
  EXPECT_EQ(fc1.count, 4);
  EXPECT_EQ(fc1.m * fc1.count * 64, w.tokens() * 8);
  EXPECT_EQ(fc1.before, Collective::all_to_all);
  EXPECT_EQ(fc2.after, Collective::all_to_all);
  EXPECT_DOUBLE_EQ(sent_bytes(fc1, 64), 63.0 / 64 * 4096 * 8 * 7168 * 2);
  EXPECT_DOUBLE_EQ(sent_bytes(fc1, 64), sent_bytes(fc2, 64));
  EXPECT_FALSE(named(layers, "op").communicates());
}

TEST(Workload, TablesAreDealtOnceAndByWhatIsRead) {
  const Workload w = shipped("dlrm-v2");
  for (int ranks : {1, 2, 4, 8, 16}) {
    std::vector<int> seen(26);
    std::int64_t columns = 0, reads = 0;
    const auto tables = tables_of_ranks(w, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (int table : tables[at(rank)]) ++seen[at(table)];
      const SubLayer mine = named(sub_layers(w, {.ranks = ranks, .rank = rank}), "embedding");
      EXPECT_EQ(mine.m, w.batch);
      columns += mine.n;
      reads += mine.k;
    }
    EXPECT_EQ(seen, std::vector<int>(26, 1));
    EXPECT_EQ(columns, 26 * 128);
    EXPECT_EQ(reads, 214);
  }
  EXPECT_EQ(sub_layers(w, {.ranks = 2, .rank = 0})[0].k, 107);
  EXPECT_NE(refusal([&] { tables_of_ranks(w, 27); }).find("use 1 to 26"), std::string::npos);
}

TEST(Workload, RanksThatCannotShareAreRefused) {
  EXPECT_EQ(refusal([] { sub_layers(shipped("t-nlg"), {.ranks = 3}); }),
            "workload \"t-nlg\": heads * head_dim (4256) cannot be shared by 3 ranks; use a number of ranks that "
            "divides it");
  EXPECT_EQ(
      refusal([] { sub_layers(shipped("mixtral-8x7b"), {.ranks = 16}); }),
      "workload \"mixtral-8x7b\": experts (8) cannot be shared by 16 ranks; use a number of ranks that divides it");
  EXPECT_NE(refusal([] { sub_layers(shipped("t-nlg"), {.ranks = 0}); }), "did not throw");
  EXPECT_NE(refusal([] { sub_layers(shipped("t-nlg"), {.ranks = 2, .rank = 2}); }), "did not throw");
  // Ranks beyond kv_heads hold the same head of k and v.
  EXPECT_EQ(named(sub_layers(shipped("llama-2-70b"), {.ranks = 16}), "ip").n, 512 + 2 * 128);
}

TEST(Scale, RatioOfComputeToCommunicationIsWhatTheFilesSay) {
  struct Case {
    const char* name;
    int ranks;
    double attention, feed_forward;
  };
  for (const Case& c : {Case{"mega-gpt-2", 8, 1, 1}, Case{"t-nlg", 8, 1, 1}, Case{"llama-2-70b", 8, 0.5, 0.5},
                        Case{"mixtral-8x7b", 8, 0.25, 0.5}, Case{"deepseek-v3-moe", 8, 0, 1}}) {
    const Workload w = shipped(c.name);
    const auto full = sub_layers(w, {.ranks = c.ranks});
    const auto small = sub_layers(scaled(w, w.scale_down), {.ranks = 4});
    ASSERT_EQ(full.size(), small.size());
    for (std::size_t i = 0; i < full.size(); ++i) {
      EXPECT_EQ(full[i].name, small[i].name);
      if (full[i].after == Collective::none || full[i].phase == Phase::backward) continue;
      // (N - 1) / N of an output travels: the one part of the ratio that is the number of ranks' own.
      const double travels = (c.ranks - 1.0) / c.ranks / (3.0 / 4);
      const double kept = flops_per_sent_element(small[i], 4) / flops_per_sent_element(full[i], c.ranks) / travels;
      EXPECT_NEAR(kept, full[i].name == "op" ? c.attention : c.feed_forward, 1e-9) << c.name << " " << full[i].name;
    }
  }
}

TEST(Scale, TokensAloneKeepEveryRatio) {
  const Workload w = shipped("llama-2-70b");
  const auto full = sub_layers(w, {.ranks = 8}, Phase::forward);
  const auto small = sub_layers(scaled(w, {.ranks = 8, .tokens = 64}), {.ranks = 8}, Phase::forward);
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (!full[i].communicates()) continue;
    EXPECT_DOUBLE_EQ(flops_per_sent_element(small[i], 8), flops_per_sent_element(full[i], 8));
  }
}

TEST(Scale, StatedScalesSuitASmallMachine) {
  Cluster pair = default_cluster(4);  // all four ranks on two cores, 100 Gflop/s and 23 GB/s together
  pair.flops_per_s = 100e9;
  pair.read_bytes_per_s = 23e9;
  const DataFolder folder(source_tree());
  for (const std::string& name : workload_names()) {
    const Workload full = load_workload(name);
    const Workload small = scaled(full, full.scale_down);
    double seconds = 0;
    for (int rank = 0; rank < 4; ++rank)
      for (const SubLayer& layer : sub_layers(small, {.ranks = 4, .rank = rank}, Phase::forward))
        seconds += compute_seconds(layer, pair);
    EXPECT_GT(seconds, 0.05) << name;
    EXPECT_LT(seconds, 0.30) << name;
    RecordProperty(name, fmt::format("{:.3f} s", seconds));
  }
}

TEST(Scale, RefusesWhatLeavesPartOfAHead) {
  const Workload w = shipped("t-nlg");
  EXPECT_NE(refusal([&] { scaled(w, {.hidden = 0.375}); }).find("heads (28) times 0.375 is 10.5"), std::string::npos);
  EXPECT_NE(refusal([&] { scaled(w, {.tokens = 1500}); }), "did not throw");
  EXPECT_NE(refusal([&] { scaled(w, {.hidden = 0}); }), "did not throw");
  EXPECT_NE(refusal([&] { scaled(w, {.ffn = 1e-9}); }), "did not throw");
  EXPECT_NE(refusal([&] { scaled(w, {.ranks = 0}); }), "did not throw");
  EXPECT_NE(refusal([&] { scaled(w, {.tokens = -1}); }), "did not throw");
  EXPECT_NE(refusal([&] { scaled(shipped("mixtral-8x7b"), {.experts = 1}); }), "did not throw");
}

// A shipped file with one field changed, at a JSON pointer.
std::string refusal_with(const std::string& name, const std::string& pointer, const nlohmann::json& value) {
  auto object = nlohmann::json::parse(text_of(name));
  object[nlohmann::json::json_pointer(pointer)] = value;
  return refusal([&] { parse_workload(object.dump(), "w.json"); });
}

TEST(Workload, HostileFilesAreRefusedByFileAndField) {
  EXPECT_EQ(refusal_with("t-nlg", "/hidden", -1), "w.json: \"hidden\" is -1; give a whole number from 1 to 4194304");
  EXPECT_EQ(refusal_with("t-nlg", "/hidden", "wide"),
            "w.json: \"hidden\" is \"wide\"; give a whole number from 1 to 4194304");
  EXPECT_EQ(refusal_with("t-nlg", "/kind", "rnn"),
            "w.json: \"kind\": unknown kind \"rnn\"; use one of transformer, moe, dlrm");
  EXPECT_EQ(refusal_with("t-nlg", "/kv_heads", 5),
            "w.json: \"kv_heads\" is 5, which 28 heads cannot share; give a divisor");
  EXPECT_EQ(refusal_with("t-nlg", "/scale_down/hidden", 0).find("w.json: in \"scale_down\": \"hidden\" is 0"), 0u);
  EXPECT_EQ(refusal_with("t-nlg", "/scale_down", 3), "w.json: \"scale_down\" is 3; give an object {...}");
  EXPECT_EQ(refusal_with("t-nlg", "/degrees", nlohmann::json::array()),
            "w.json: \"degrees\" has 0 items; give 1 to 64");
  EXPECT_EQ(refusal_with("t-nlg", "/degrees/0", 0).find("w.json: item 0 of \"degrees\" is 0"), 0u);
  EXPECT_EQ(refusal_with("t-nlg", "/dtype", "f8").find("w.json: \"dtype\": "), 0u);
  EXPECT_EQ(refusal_with("t-nlg", "/experts", 8).find("w.json: unknown field \"experts\""), 0u);
  EXPECT_EQ(refusal_with("t-nlg", "/sequence", 1e30).find("w.json: \"sequence\" is "), 0u);
  EXPECT_EQ(refusal_with("mixtral-8x7b", "/top_k", 9), "w.json: \"top_k\" is 9; give a whole number from 1 to 8");
  EXPECT_EQ(refusal_with("deepseek-v3-moe", "/kv_rank", 0).find("w.json: \"q_rank\" is 1536 and \"kv_rank\" is 0"), 0u);
  EXPECT_EQ(refusal_with("deepseek-v3-moe", "/attention", "tensor").find("w.json: \"attention\" is \"tensor\""), 0u);
  EXPECT_EQ(refusal_with("dlrm-v2", "/rows/3", 0).find("w.json: item 3 of \"rows\" is 0"), 0u);
  EXPECT_EQ(refusal_with("dlrm-v2", "/rows", {1, 2}).find("w.json: \"multi_hot\" has 26 items and \"rows\" 2"), 0u);
  EXPECT_EQ(refusal_with("dlrm-v2", "/dim", 64).find("w.json: \"bottom\" ends with 128"), 0u);
  for (const char* text : {"", "[]", "3", "{}", "{\"kind\": NaN}", "{\"kind\": \"moe\"}", "{\"kind\""})
    EXPECT_EQ(refusal([&] { parse_workload(text, "w.json"); }).find("w.json: "), 0u) << text;
}

TEST(Workload, EveryFieldIsRequired) {
  for (const char* name : {"t-nlg", "deepseek-v3-moe", "dlrm-v2"}) {
    const auto whole = nlohmann::json::parse(text_of(name));
    for (const auto& item : whole.items()) {
      if (item.key() == "training") continue;  // one rank, where it is left out
      auto object = whole;
      object.erase(item.key());
      const std::string message = refusal([&] { parse_workload(object.dump(), "w.json"); });
      EXPECT_EQ(message.find("w.json: \"" + item.key() + "\" is missing"), 0u) << message;
    }
  }
}

TEST(Workload, TrainingFitsTheKindOfModel) {
  EXPECT_EQ(shipped("llama-2-70b").training.ranks(), 1024);
  for (const std::string name : {"gpt-3", "mixtral-8x7b", "dlrm-v2"}) {
    const auto whole = nlohmann::json::parse(text_of(name));
    for (const char* key : {"tp", "pp", "dp", "ep", "schedule", "chunks", "micro_batches", "micro_batch", "why"}) {
      auto object = whole;
      object["training"].erase(key);
      EXPECT_NE(refusal([&] { parse_workload(object.dump(), "w.json"); }).find("in \"training\": \""),
                std::string::npos);
    }
  }
  const auto says = [](const std::string& name, const char* key) {
    auto object = nlohmann::json::parse(text_of(name));
    object["training"][key] = 2;
    return refusal([&] { parse_workload(object.dump(), "w.json"); });
  };
  EXPECT_NE(says("gpt-3", "ep").find("\"ep\" is 2, but there are no experts; give 1"), std::string::npos);
  EXPECT_NE(says("mixtral-8x7b", "tp").find("is split over \"ep\", give 1"), std::string::npos);
  EXPECT_NE(says("dlrm-v2", "pp").find("tables are dealt to all ranks of \"dp\""), std::string::npos);
}

TEST(Workload, UnknownNamesListTheKnown) {
  const DataFolder folder(source_tree());
  EXPECT_EQ(
      refusal([] { load_workload("gpt-5"); }),
      "unknown workload \"gpt-5\"; use one of deepseek-v3-moe, dlrm-128, dlrm-v2, gpt-3, llama-2-70b, mega-gpt-2, "
      "mixtral-8x7b, mt-nlg, palm, t-nlg, or the path of a file");
  EXPECT_NE(refusal([] { load_workload("/nowhere/w.json"); }).find("\"/nowhere/w.json\""), std::string::npos);
  EXPECT_NE(refusal([] { load_workload(""); }).find("unknown workload \"\""), std::string::npos);
  const DataFolder empty("/nowhere");
  EXPECT_TRUE(workload_names().empty());
  EXPECT_NE(refusal([] { load_workload("t-nlg"); }).find("unknown workload"), std::string::npos);
}

}  // namespace
}  // namespace weft
