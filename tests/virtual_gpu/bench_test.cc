// `weft bench --device cuda` on a virtual GPU: every op that it measures, over every link. Times mean nothing there;
// results are checked by the benchmark itself, against float64 at random places.
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/study/device/device_study.h"
#include "weft/study/op_request.h"

namespace weft {
namespace {

OpRequest product(const std::string& op) { return {.op = op, .ranks = 2, .m = 512, .n = 256, .k = 64}; }

OpRequest bags() {
  return {.op = "embedding-a2a", .ranks = 2, .tables = 2, .rows = 1000, .dim = 16, .batch = 128, .pooling = 4};
}

DeviceStudyOptions over(CudaLink link, double bytes_per_s = 0) {
  DeviceStudyOptions out;
  out.rounds = 1, out.link = link;
  if (bytes_per_s > 0) out.pace = Pace{.bytes_per_s = bytes_per_s, .latency_s = 1e-6};
  return out;
}

void expect_measured(const OpRequest& request, const DeviceStudyOptions& options) {
  const Measurement found = measure_on_device(device_spec(parse_op(request, 8)), options);
  EXPECT_GT(found.fused_us, 0) << request.op;
  EXPECT_GT(found.compute_us.value_or(0), 0) << request.op;
  EXPECT_GT(found.sequential_us.value_or(0), 0) << request.op;
  EXPECT_LE(found.max_rel_err, 0.02) << request.op;
  if (options.link == CudaLink::pcie && request.op.starts_with("gemm")) {
    EXPECT_GT(found.others_us.at("kernel of fused, with its waits"), 0) << request.op;
  }
}

TEST(VirtualBench, MeasuresGemmsOnMemoryAndOverPacedLinks) {
  for (const char* op : {"gemm-rs", "gemm-ar", "gemm-a2a", "ag-gemm"}) {
    expect_measured(product(op), over(CudaLink::hbm));
    expect_measured(product(op), over(CudaLink::hbm, 10e9));
  }
}

TEST(VirtualBench, MeasuresGemmsAndBagsOverPcie) {
  for (const OpRequest& request : {product("gemm-rs"), product("gemm-ar"), product("gemm-a2a"), bags()})
    expect_measured(request, over(CudaLink::pcie));
}

TEST(VirtualBench, MeasuresFewRowsAndBags) {
  expect_measured({.op = "gemv-ar", .ranks = 2, .m = 4, .n = 512, .k = 1024}, over(CudaLink::hbm));
  expect_measured(bags(), over(CudaLink::hbm));
}

// A mixture of four small experts, whose rows are drawn at run time.
constexpr const char* kExperts = R"({"name": "small", "source": "test", "kind": "moe", "hidden": 128, "layers": 1,
  "heads": 1, "kv_heads": 1, "head_dim": 64, "ffn": 64, "gated": true, "experts": 4, "top_k": 2, "shared_experts": 0,
  "attention": "tensor", "q_rank": 0, "kv_rank": 0, "rope_dim": 0, "sequence": 64, "batch": 1, "degrees": [2],
  "dtype": "bf16", "scale_down": {"why": "none", "ranks": 2, "tokens": 64, "hidden": 1, "ffn": 1, "experts": 4,
    "top_k": 2}})";

TEST(VirtualBench, TracesOneRunOfFusedByEveryLink) {
  const ScratchFolder scratch;
  std::ofstream(scratch.file("experts.json")) << kExperts;
  OpRequest routed{.op = "gemm-a2a", .ranks = 2};
  routed.workload = scratch.file("experts.json"), routed.tokens = 64;
  const std::vector<std::pair<OpRequest, DeviceStudyOptions>> cases{{product("gemm-rs"), over(CudaLink::hbm)},
                                                                    {product("ag-gemm"), over(CudaLink::hbm, 10e9)},
                                                                    {product("gemm-rs"), over(CudaLink::pcie)},
                                                                    {routed, over(CudaLink::hbm)}};
  for (auto [request, options] : cases) {
    options.trace = scratch.file("trace.json");
    const Measurement found = measure_on_device(device_spec(parse_op(request, 8)), options);
    ASSERT_TRUE(found.traced) << request.op;
    EXPECT_GT(found.traced->run_us, 0) << request.op;
    std::ifstream file(options.trace);
    const nlohmann::json trace = nlohmann::json::parse(file);
    std::set<std::pair<int, std::string>> seen;  // what each rank did
    for (const auto& event : trace.at("traceEvents"))
      if (event.at("ph") == "X") seen.emplace(event.at("pid"), event.at("cat"));
    for (const int rank : {0, 1})
      for (const char* what : {"made", "stored"}) EXPECT_TRUE(seen.contains({rank, what})) << request.op << what;
  }
}

TEST(VirtualBench, RefusesATimelineOfOtherKernels) {
  for (const OpRequest& request : {bags(), OpRequest{.op = "gemv-ar", .ranks = 2, .m = 4, .n = 512, .k = 1024}}) {
    DeviceStudyOptions options = over(CudaLink::hbm);
    options.trace = "trace.json";
    EXPECT_THROW(measure_on_device(device_spec(parse_op(request, 8)), options), Error) << request.op;
  }
}

}  // namespace
}  // namespace weft
