// The ledger: its blocks compute what they claim, in every style, and its command keeps its contract.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/reference.h"
#include "weft/study/ledger/block.h"
#include "weft/study/ledger/sample_check.h"
#include "weft/world/world.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

// Small models of every kind; widths that tiles and panels do not divide.
constexpr const char* kTransformer =
    R"({"name": "small", "source": "test", "kind": "transformer", "hidden": 72, "layers": 1,
  "heads": 6, "kv_heads": 6, "head_dim": 12, "ffn": 204, "gated": false, "sequence": 20, "batch": 2, "degrees": [2],
  "dtype": "bf16", "scale_down": {"why": "none", "ranks": 2, "tokens": 40, "hidden": 1, "ffn": 1}})";
constexpr const char* kGated = R"({"name": "gated", "source": "test", "kind": "transformer", "hidden": 96, "layers": 1,
  "heads": 6, "kv_heads": 2, "head_dim": 16, "ffn": 204, "gated": true, "sequence": 40, "batch": 1, "degrees": [2],
  "dtype": "bf16", "scale_down": {"why": "none", "ranks": 2, "tokens": 40, "hidden": 1, "ffn": 1}})";
constexpr const char* kMoe = R"({"name": "experts", "source": "test", "kind": "moe", "hidden": 64, "layers": 1,
  "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 100, "gated": true, "experts": 6, "top_k": 2, "shared_experts": 0,
  "attention": "tensor", "q_rank": 0, "kv_rank": 0, "rope_dim": 0, "sequence": 32, "batch": 1, "degrees": [2],
  "dtype": "bf16", "scale_down": {"why": "none", "ranks": 2, "tokens": 32, "hidden": 1, "ffn": 1, "experts": 6,
  "top_k": 2}})";
constexpr const char* kLatent = R"({"name": "latent", "source": "test", "kind": "moe", "hidden": 64, "layers": 1,
  "heads": 4, "kv_heads": 4, "head_dim": 16, "ffn": 52, "gated": true, "experts": 4, "top_k": 2, "shared_experts": 1,
  "attention": "data", "q_rank": 24, "kv_rank": 20, "rope_dim": 8, "sequence": 32, "batch": 1, "degrees": [2],
  "dtype": "bf16", "scale_down": {"why": "none", "ranks": 2, "tokens": 32, "hidden": 1, "ffn": 1, "experts": 4,
  "top_k": 2}})";
constexpr const char* kDlrm =
    R"({"name": "tables", "source": "test", "kind": "dlrm", "dim": 16, "rows": [100, 3, 50, 700, 9],
  "multi_hot": [3, 1, 2, 30, 1], "bottom": [13, 32, 16], "top": [64, 32, 1], "cross_layers": 2, "cross_rank": 8,
  "batch": 48, "degrees": [2], "dtype": "f32",
  "scale_down": {"why": "none", "ranks": 2, "hidden": 1, "rows": 700, "batch": 48}})";

// `body` on every rank, with a block of that workload.
void with_block(const char* json, int ranks, const std::function<void(World&, WorkloadBlock&)>& body) {
  const Workload workload = parse_workload(json, "test");
  World::local(ranks, [&](World& world) {
    CommonClock clock(world);
    WorkloadBlock block(world, clock, workload);
    block.refresh(1);
    block.settle([](const std::string&) {});
    block.refresh(1);
    body(world, block);
  });
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double most = 0, scale = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(a[i])));
  }
  return most / scale;
}

TEST(Ledger, StylesAgreeOnEveryKindOfWorkload) {
  for (const char* json : {kTransformer, kGated, kMoe, kLatent, kDlrm})
    for (const int ranks : {1, 2})
      with_block(json, ranks, [&](World& world, WorkloadBlock& block) {
        const std::string& name = block.workload().name;
        SampleCheck check(world);
        StageLog log;
        block.run(Style::sequential, log);
        EXPECT_LT(check.error_of(block, 1), 1e-5) << name;
        const std::vector<float> expected(block.output().begin(), block.output().end());
        for (const Style style : {Style::panels, Style::fused}) {
          block.run(Style::compute, log);  // leaves other values wherever there is room
          block.run(style, log);
          EXPECT_LT(check.error_of(block, 2), 1e-5) << name;
          EXPECT_LT(largest_difference(expected, block.output()), style == Style::fused ? 1e-9 : 1e-5)
              << name << " " << to_string(style) << " on " << ranks;
        }
        double scale = 0;
        for (const float y : expected) scale = std::max(scale, std::abs(static_cast<double>(y)));
        EXPECT_GT(scale, 0.1) << name;
        EXPECT_LT(scale, 100) << name;
      });
}

// Sums that were not made are not taken for right: compute alone keeps one rank's part of them.
TEST(Ledger, AResultThatIsNotSummedIsCaught) {
  for (const char* json : {kTransformer, kMoe, kDlrm})
    with_block(json, 2, [&](World& world, WorkloadBlock& block) {
      SampleCheck check(world);
      StageLog log;
      block.run(Style::sequential, log);
      block.run(Style::compute, log);
      EXPECT_THROW(check.error_of(block, 1), Error) << block.workload().name;
    });
}

using Values = std::vector<double>;

Values times(const Values& x, const MeasuredPart& part) {
  const Producer& p = part.spec().producer;
  const auto* w = static_cast<const float*>(part.last_inputs().w);
  Values y(num(p.m * p.n));
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t q = 0; q < p.k; ++q) y[at(i * p.n + j)] += x[at(i * p.k + q)] * w[q * p.n + j];
  return y;
}

Values normed(const Values& x, std::int64_t cols) {
  Values y;
  for (std::size_t row = 0; row < x.size(); row += num(cols)) {
    double squares = 0;
    for (std::int64_t j = 0; j < cols; ++j) squares += x[row + num(j)] * x[row + num(j)];
    for (std::int64_t j = 0; j < cols; ++j)
      y.push_back(x[row + num(j)] / std::sqrt(squares / static_cast<double>(cols) + 1e-5));
  }
  return y;
}

// One rank's part of the two sums of a transformer's block, in float64, from its weights and the block's input.
struct Shares {
  Values x, attended, fed;
};

Values attend(const Values& qkv, const Workload& w, std::int64_t cols) {
  const std::vector<float> in(qkv.begin(), qkv.end());
  Values out;
  for (std::int64_t row = 0; row < w.tokens(); row += w.sequence) {
    const std::int64_t heads = cols / w.head_dim, ld = 3 * cols;
    Values y(num(w.sequence * cols));
    attention_f64({w.sequence, heads, heads, w.head_dim, w.head_dim, ld, ld, ld, cols}, in.data() + row * ld,
                  in.data() + row * ld + cols, in.data() + row * ld + 2 * cols, y.data());
    out.insert(out.end(), y.begin(), y.end());
  }
  return out;
}

TEST(Ledger, ATransformersBlockIsWhatFloat64MakesOfIt) {
  const Workload w = parse_workload(kTransformer, "test");
  constexpr int kRanks = 3;
  std::mutex mutex;
  std::vector<Values> attended(kRanks), fed(kRanks);
  with_block(kTransformer, kRanks, [&](World& world, WorkloadBlock& block) {
    StageLog log;
    block.run(Style::fused, log);
    const auto part = [&](const std::string& name) -> const MeasuredPart& {
      for (const auto& p : block.parts())
        if (p->name() == name) return *p;
      throw std::runtime_error(name);
    };
    const auto input = block.input();
    Values x(input.begin(), input.end());
    const auto share = [&](std::vector<Values>& all, Values mine) {
      {
        const std::lock_guard lock(mutex);
        all[at(world.rank())] = std::move(mine);
      }
      world.barrier();
      for (const Values& values : all)
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += values[i];
    };
    const std::int64_t cols = part("op").spec().producer.k;
    share(attended, times(attend(times(normed(x, w.hidden), part("ip")), w, cols), part("op")));
    Values middle = times(normed(x, w.hidden), part("fc1"));
    for (double& value : middle) value = activation_f64(Activation::gelu, value);
    share(fed, times(middle, part("fc2")));
    const std::vector<float> exact(x.begin(), x.end());
    EXPECT_LT(largest_difference(exact, block.output()), 1e-5);
  });
}

class LedgerCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    setenv("WEFT_CLUSTER", WEFT_SOURCE "/clusters/local.json", 1);  // no time for measuring rates
  }
  void TearDown() override {
    unsetenv("WEFT_CLUSTER");
    std::filesystem::remove_all(folder_);
  }
  std::string write(const char* json) const {
    const std::string path = folder_ + "/workload.json";
    std::ofstream(path) << json;
    return path;
  }

  const std::string folder_ = fmt::format("{}/weft_ledger_{}", ::testing::TempDir(), getpid());
};

TEST_F(LedgerCommand, JsonHasItsKeysAndTheFloorIsExposedByNothing) {
  const std::string svg = folder_ + "/timeline.svg", trace = folder_ + "/trace.json";
  const Ended ended = weft({"ledger", "--workload", write(kTransformer), "--ranks", "2", "--link", "10gbit,10us",
                            "--rounds", "3", "--svg", svg, "--trace", trace, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const Json ledger = Json::parse(ended.out);
  std::vector<std::string> names;
  for (const Json& row : ledger["rows"]) {
    names.push_back(row["name"]);
    if (row["measured_us"].is_null()) continue;
    EXPECT_GT(row["measured_us"].get<double>(), 0);
    EXPECT_GT(row["predicted_us"].get<double>(), 0);
    EXPECT_NEAR(row["exposed_us"].get<double>(),
                row["measured_us"].get<double>() - ledger["rows"][3]["measured_us"].get<double>(), 1e-6);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"sequential", "decomposed", "fused", "compute", "track_and_trigger"}));
  const Json& simulated = ledger["rows"][4];
  EXPECT_TRUE(simulated["measured_us"].is_null());
  EXPECT_GE(simulated["predicted_us"].get<double>(), ledger["rows"][3]["predicted_us"].get<double>());
  for (const char* key :
       {"workload", "ranks", "cores", "link", "aa_band", "sub_layers", "plans", "max_rel_err", "next"})
    EXPECT_TRUE(ledger.contains(key)) << key;
  EXPECT_EQ(ledger["sub_layers"].size(), 5u);
  EXPECT_EQ(ledger["sub_layers"][2]["collective"], "all_reduce");
  EXPECT_TRUE(ledger["same_bits"].get<bool>());
  EXPECT_GT(std::filesystem::file_size(svg), 1000u);
  std::ifstream traced(trace);
  EXPECT_GT(Json::parse(traced)["traceEvents"].size(), 100u);
}

TEST_F(LedgerCommand, TextSaysWhatWasMeasuredAndWhatToTry) {
  const std::string svg = folder_ + "/t.svg";
  const Ended ended =
      weft({"ledger", "--workload", write(kDlrm), "--ranks", "2", "--link", "shm", "--rounds", "2", "--svg", svg});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const std::string part : {"tables, the model forward", "measured", "predicted", "exposed", "sequential", "fused",
                                 "verified in", "embedding", "What to try next", svg.c_str()})
    EXPECT_NE(ended.out.find(part), std::string::npos) << part << "\n" << ended.out;
}

// Expects exit code 2 and one sentence that names the value.
void refused(std::vector<std::string> words, const std::string& name) {
  words.insert(words.begin(), {"ledger", "--json"});
  const Ended ended = weft(words);
  EXPECT_EQ(ended.code, 2) << name << ended.err;
  EXPECT_NE(ended.err.find(name), std::string::npos) << ended.err;
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

TEST_F(LedgerCommand, RefusalsNameTheValue) {
  const std::string file = write(kTransformer);
  refused({"--workload", "gpt-9"}, "gpt-9");
  refused({"--workload", file, "--ranks", "1"}, "--ranks is 1");
  refused({"--workload", file, "--ranks", "5"}, "5 ranks");
  refused({"--workload", file, "--link", "fast"}, "fast");
  refused({"--workload", file, "--rounds", "0"}, "--rounds is 0");
  refused({"--workload", file, "--svg", folder_ + "/none/x.svg"}, "none/x.svg");
}

// A model's ledger has a row for every form, the floor last; what changes no value gives the same token, and halves of
// bytes are exact.
TEST_F(LedgerCommand, AModelHasARowForEveryForm) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "its losses take minutes here; llm_test runs the same engine";
#endif
  const Ended ended = weft({"ledger", "--json", "--model", "weft-16", "--ranks", "2", "--tokens", "96", "--link",
                            "1gbit,10us", "--rounds", "1"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto json = nlohmann::json::parse(ended.out);
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : json["rows"]) rows[row["name"]] = row;
  for (const char* name :
       {"sequential", "decomposed", "fused", "fused_int8", "dropped", "dropped_int8", "track_and_trigger", "compute"})
    ASSERT_TRUE(rows.count(name)) << name << ended.out;
  EXPECT_EQ(json["rows"].back()["name"], "compute");
  EXPECT_TRUE(json["same_token"].get<bool>());
  EXPECT_EQ(rows["fused"]["sync_points"], 32);
  EXPECT_EQ(rows["dropped"]["sync_points"], 32 - rows["dropped"]["dropped"].get<int>());
  EXPECT_EQ(rows["compute"]["sent_bytes"], 0);
  EXPECT_LT(rows["fused_int8"]["sent_bytes"].get<double>(), 0.3 * rows["fused"]["sent_bytes"].get<double>());
  EXPECT_LT(std::abs(rows["fused_int8"]["loss"].get<double>()), 0.01);
  EXPECT_GT(rows["dropped"]["loss"].get<double>(), rows["fused_int8"]["loss"].get<double>());
  EXPECT_FALSE(json["text"].get<std::string>().empty());
  EXPECT_NE(json["torch"].get<std::string>().find("paced link"), std::string::npos) << "and no row of PyTorch";
  for (const auto& [name, row] : rows) EXPECT_GT(row["predicted_us"].get<double>(), 0) << name;
}

TEST_F(LedgerCommand, RefusalsOfAModelNameTheValue) {
  refused({"--model", "weft-17"}, "weft-17");
  refused({"--model", folder_}, "config.json");
  refused({"--tokens", "0"}, "--tokens is 0");
  refused({"--tokens", "2000"}, "--tokens is 2000");
  refused({"--spd", folder_ + "/none.spd"}, "none.spd");
  refused({"--rounds", "0"}, "--rounds is 0");
}

}  // namespace
}  // namespace weft::testing
