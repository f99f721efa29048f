#include "weft/exec/cuda/small/gemv_executor.h"

#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include "weft/base/index.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/small/gemv.h"

namespace weft {

struct CudaGemv::Impl {
  Plan plan;
  GemvPlan gemv;
  CudaGemvOptions options;
  GemvKernel kernel;
  struct Rank {
    DeviceMemory y, inbox, targets, sources;
  };
  std::vector<Rank> memory;
  DeviceMemory gave_up{4}, run{8};
  PinnedMemory failure{sizeof(DeviceFailure)};
  GemvArguments arguments{};
  bool broken = false;

  Impl(const Plan& plan_in, GemvPlan tables, const CudaGemvOptions& options_in)
      : plan(plan_in), gemv(std::move(tables)), options(options_in), kernel(gemv_kernel_of(gemv)) {}
  ~Impl() { cudaDeviceSynchronize(); }  // kernels read this memory

  DeviceFailure& failed() const { return *reinterpret_cast<DeviceFailure*>(failure.data()); }
  void share_device();
  void fill_rank(int rank);
};

// One CTA per multiprocessor: all of them are resident at once, so a wait for a peer ends.
void CudaGemv::Impl::share_device() {
  const DeviceFacts facts = *device_facts();
  if (facts.major != 9)
    bad_input("{} is not a Hopper GPU (compute capability 9.0); run the plan on the CPU", facts.name);
  arguments.ctas_per_rank = facts.multiprocessors / plan.num_ranks;
  if (cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    bad_input("{} rows of {} values do not fit into the shared memory of {}; use fewer, or a gemm", gemv.rows,
              gemv.depth, facts.name);
  }
}

void CudaGemv::Impl::fill_rank(int r) {
  const std::int64_t words = gemv.inbox_elements / 2;
  Rank made;
  made.y = DeviceMemory(std::int64_t{gemv.rows} * gemv.cols * 2);
  made.inbox = DeviceMemory(2 * words * 8 + 8);
  made.targets = on_device(gemv.tables[at(r)].targets);
  made.sources = on_device(gemv.tables[at(r)].sources);
  GemvRank& to = arguments.ranks[r];
  to.y = made.y.data(), to.inbox = made.inbox.data();
  to.targets = reinterpret_cast<const GemvTarget*>(made.targets.data());
  to.sources = reinterpret_cast<const std::int32_t*>(made.sources.data());
  memory.push_back(std::move(made));
}

CudaGemv::CudaGemv(const Plan& plan, const CudaGemvOptions& options)
    : CudaGemv(plan, gemv_plan(plan, Expander(plan)), options) {}

CudaGemv::CudaGemv(const Plan& plan, GemvPlan tables, const CudaGemvOptions& options) {
  if (!device_facts()) bad_input("there is no GPU here; run the plan on the CPU");
  impl_ = std::make_unique<Impl>(plan, std::move(tables), options);
  Impl& i = *impl_;
  i.share_device();
  for (int r = 0; r < plan.num_ranks; ++r) i.fill_rank(r);
  i.failed() = {};
  GemvArguments& a = i.arguments;
  a.failure = &i.failed();
  a.gave_up = reinterpret_cast<std::uint32_t*>(i.gave_up.data());
  a.run = reinterpret_cast<std::uint32_t*>(i.run.data());
  a.deadline_ns = static_cast<unsigned long long>(options.deadline.count());
  a.inbox_words = i.gemv.inbox_elements / 2;
  a.rows = i.gemv.rows, a.cols = i.gemv.cols, a.depth = i.gemv.depth, a.tiles = i.gemv.tiles;
  a.num_targets = i.gemv.num_targets, a.num_sources = i.gemv.num_sources;
}

CudaGemv::~CudaGemv() = default;

void CudaGemv::start(std::span<const CudaOperands> operands) {
  Impl& i = *impl_;
  if (i.broken) fail(Code::deadline, "a run of plan \"{}\" has failed; make a new op", i.plan.name);
  if (operands.size() != num(i.plan.num_ranks))
    bad_input("operands of {} ranks are given, but the plan has {}", operands.size(), i.plan.num_ranks);
  for (std::size_t r = 0; r < operands.size(); ++r)
    i.arguments.ranks[r].x = operands[r].x, i.arguments.ranks[r].w = operands[r].w;
  cudaLaunchConfig_t config{};
  config.gridDim = num(i.arguments.ctas_per_rank * i.plan.num_ranks), config.blockDim = kGemvThreads;
  config.dynamicSmemBytes = num(i.kernel.shared_bytes);
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &dependent, config.numAttrs = i.options.launch == Launch::dependent ? 1 : 0;
  config.stream = static_cast<cudaStream_t>(device_queue());
  void* given[] = {&i.arguments};
  check_cuda(cudaLaunchKernelExC(&config, i.kernel.kernel, given), "launch the kernel");
}

void CudaGemv::finish() {
  check_cuda(cudaDeviceSynchronize(), "run the kernel");
  if (impl_->failed().failed == 0) return;
  impl_->broken = true;
  throw Error(Code::deadline, describe_gemv(impl_->gemv, impl_->failed()), impl_->failed().rank);
}

std::byte* CudaGemv::output(int rank) const { return impl_->memory[at(rank)].y.data(); }
const GemvPlan& CudaGemv::tables() const { return impl_->gemv; }

}  // namespace weft
