// GPUs that are not joined as ops need them: what no host at hand has.
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/device.h"
#include "weft/world/cuda/cuda_op.h"
#include "weft/world/world.h"

#include "tests/virtual_gpu/device.h"

namespace weft {
namespace {

std::vector<std::string> refusals_of_two_ranks() {
  std::vector<std::string> out(2);
  World::local(2, [&](World& world) {
    const UseDevice scope(world.rank());
    const Mesh mesh = world.mesh({{"tp", 2}});
    out[static_cast<std::size_t>(world.rank())] =
        refusal([&] { world.compile_cuda(gemm({.m = 512, .n = 256, .k = 64}), reduce_scatter(mesh, "tp"), {}); });
    world.barrier();
  });
  return out;
}

// Each rank cannot reach the other's; all of them say what the first says.
TEST(VirtualPeers, GpusThatCannotReachOrAddAreRefusedByAllRanks) {
  virtual_gpu::peers = {.reach = true, .add = false};
  for (const std::string& told : refusals_of_two_ranks())
    EXPECT_EQ(told,
              "rank 0 cannot compile for a GPU: GPU 0 cannot add in the memory of GPU 1 (virtual Hopper) in one step; "
              "use GPUs that NVLink joins");
  virtual_gpu::peers = {.reach = false, .add = true};
  for (const std::string& told : refusals_of_two_ranks())
    EXPECT_EQ(told,
              "rank 0 cannot compile for a GPU: GPU 0 cannot reach the memory of GPU 1 (virtual Hopper); use GPUs that "
              "NVLink or a PCIe switch joins");
  virtual_gpu::peers = {};
  for (const std::string& told : refusals_of_two_ranks()) EXPECT_EQ(told, "did not throw");
}

}  // namespace
}  // namespace weft
