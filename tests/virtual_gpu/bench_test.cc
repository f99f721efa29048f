// `weft bench --device cuda` on a virtual GPU: every op that it measures, over every link. Times mean nothing there;
// results are checked by the benchmark itself, against float64 at random places.
#include <gtest/gtest.h>

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
    EXPECT_GT(found.others_us.at("compute, slowed"), 0) << request.op;
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

}  // namespace
}  // namespace weft
