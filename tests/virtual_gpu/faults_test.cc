// What a virtual GPU finds in kernels that break the rules: each of these goes right on most GPUs most of the time.
#include <gtest/gtest.h>

#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/kernel.h"
#include "weft/exec/cuda/ptx.cuh"

namespace weft {
namespace {

constexpr int kBytes = 1024;

struct Places {
  std::uint8_t *from, *to;
  std::uint32_t* counter;
};

struct Memory {
  alignas(1024) std::uint8_t slot[kBytes];
  std::uint64_t loaded;
};

Memory& memory() { return *reinterpret_cast<Memory*>(dynamic_memory<1024>()); }

// Runs a warp of it: the fault that is told of it; empty: none.
std::string fault_of(Kernel<Places> kernel) {
  const DeviceMemory from(kBytes), to(kBytes), counter(4);
  const Places places{reinterpret_cast<std::uint8_t*>(from.data()), reinterpret_cast<std::uint8_t*>(to.data()),
                      reinterpret_cast<std::uint32_t*>(counter.data())};
  cudaLaunchConfig_t config{};
  config.gridDim = 1, config.blockDim = 32, config.dynamicSmemBytes = sizeof(Memory);
  config.stream = static_cast<cudaStream_t>(device_queue());
  launch(config, kernel, places);
  std::string out;
  try {
    check_cuda(cudaDeviceSynchronize(), "run the kernel");
  } catch (const Error& error) {
    out = error.what();
  }
  gpu::grid().forget_fault();
  return out;
}

void begin() {
  if (threadIdx.x == 0) init_barrier(&memory().loaded, 1);
  __syncwarp();
}

void goes_right(const Places& p) {
  begin();
  if (threadIdx.x == 0) {
    arrive_and_expect(&memory().loaded, kBytes);
    load_bytes(memory().slot, p.from, kBytes, &memory().loaded);
  }
  wait_barrier(&memory().loaded, 0);
  const std::uint32_t values[4] = {1, 2, 3, 4};
  store_matrices(shared_address(memory().slot) + threadIdx.x * 16, values);
  fence_proxies_shared();
  __syncwarp();
  if (threadIdx.x != 0) return;
  store_bytes(p.to, memory().slot, kBytes);
  commit_stores();
  wait_stores_done();
  add_release(p.counter, 1);
}

void stores_without_a_fence(const Places& p) {
  const std::uint32_t values[4] = {1, 2, 3, 4};
  store_matrices(shared_address(memory().slot) + threadIdx.x * 16, values);
  __syncwarp();
  if (threadIdx.x != 0) return;
  store_bytes(p.to, memory().slot, kBytes);
  commit_stores();
  wait_stores_done();
}

void signals_once_stores_have_read(const Places& p) {
  if (threadIdx.x != 0) return;
  store_bytes(p.to, memory().slot, kBytes);
  commit_stores();
  wait_stores_read();
  add_release(p.counter, 1);
}

void forgets_to_commit(const Places& p) {
  if (threadIdx.x != 0) return;
  store_bytes(p.to, memory().slot, kBytes);
  wait_stores_done();
  add_release(p.counter, 1);
}

void loads_what_it_acquired_without_a_fence(const Places& p) {
  begin();
  if (threadIdx.x != 0) return;
  load_acquire(p.counter);
  arrive_and_expect(&memory().loaded, kBytes);
  load_bytes(memory().slot, p.from, kBytes, &memory().loaded);
  wait_barrier(&memory().loaded, 0);
}

void arrives_twice(const Places&) {
  begin();
  if (threadIdx.x < 2) arrive_and_expect(&memory().loaded, kBytes);
}

void leaves_a_load_behind(const Places& p) {
  begin();
  if (threadIdx.x != 0) return;
  arrive_and_expect(&memory().loaded, kBytes);
  load_bytes(memory().slot, p.from, kBytes, &memory().loaded);
}

TEST(VirtualGpu, TellsOfWhatBreaksTheRulesAndOfNothingElse) {
  const auto tells = [](Kernel<Places> kernel, const std::string& what) {
    std::string found;
    for (int i = 0; i < 100 && found.empty(); ++i) found = fault_of(kernel);  // what comes first is drawn
    EXPECT_NE(found.find(what), std::string::npos) << "found \"" << found << "\" instead of \"" << what << '"';
  };
  for (int i = 0; i < 100; ++i) EXPECT_EQ(fault_of(goes_right), "");
  tells(stores_without_a_fence, "a bulk store reads shared memory that its writer has not fenced");
  tells(signals_once_stores_have_read, "a counter is raised before bulk stores are done");
  tells(forgets_to_commit, "a counter is raised before bulk stores are done");
  tells(loads_what_it_acquired_without_a_fence, "a bulk load follows an acquire without a fence");
  tells(arrives_twice, "a barrier is arrived at more often than it was made for");
  tells(leaves_a_load_behind, "the CTA ends while a bulk copy uses its shared memory");
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the program there
void writes_behind_the_end(const Places& p) { p.to[kBytes] = 1; }

TEST(VirtualGpu, TellsOfWritesBehindTheEndOfMemoryThatIsFreed) {
  EXPECT_EQ(fault_of(writes_behind_the_end), "");
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  gpu::grid().forget_fault();
}
#endif

}  // namespace
}  // namespace weft
