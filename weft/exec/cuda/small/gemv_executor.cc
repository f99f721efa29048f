#include "weft/exec/cuda/small/gemv_executor.h"

#include <cuda_runtime.h>

#include <utility>
#include <vector>

#include "weft/base/index.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/run_state.h"
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
  RunState state;
  GemvArguments arguments{};
  int first, count;              // ranks that run here
  cudaStream_t queue = nullptr;  // of the latest run

  Impl(const Plan& plan_in, GemvPlan tables, const CudaGemvOptions& options_in)
      : plan(plan_in),
        gemv(std::move(tables)),
        options(options_in),
        kernel(gemv_kernel_of(gemv)),
        first(options.rank.value_or(0)),
        count(options.rank ? 1 : plan.num_ranks) {}
  ~Impl() { cudaDeviceSynchronize(); }  // kernels read this memory

  const Rank& own(int rank) const { return memory[at(rank - first)]; }
  std::int64_t inbox_bytes() const { return gemv.inbox_elements * 8 + 8; }  // two halves of a word per two elements
  void share_device();
  void fill_rank(int rank);
  void throw_failure();
};

// One CTA per multiprocessor: all of them are resident at once, so a wait for a peer ends.
void CudaGemv::Impl::share_device() {
  const DeviceFacts facts = *device_facts();
  if (facts.major != 9)
    bad_input("{} is not a Hopper GPU (compute capability 9.0); run the plan on the CPU", facts.name);
  arguments.ctas_per_rank = facts.multiprocessors / (count * options.launches);
  if (arguments.ctas_per_rank < 1)
    bad_input("{} ranks do not fit on {}; use at most {}", count * options.launches, facts.name, facts.multiprocessors);
  // All that there is, since other ops have the same kernel: what one of them set would be the limit of all.
  int most = 0;
  check_cuda(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, current_device()),
             "ask for the shared memory of a CTA");
  cudaFuncAttributes found{};
  check_cuda(cudaFuncGetAttributes(&found, handle_of(kernel.kernel)), "ask what the kernel needs");
  most -= static_cast<int>(found.sharedSizeBytes);
  if (kernel.shared_bytes > most)
    bad_input("{} rows of {} values do not fit into the shared memory of {}; use fewer, or a gemm", gemv.rows,
              gemv.depth, facts.name);
  check_cuda(cudaFuncSetAttribute(handle_of(kernel.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, most),
             "give the kernel its shared memory");
}

void CudaGemv::Impl::fill_rank(int r) {
  Rank made;
  made.y = DeviceMemory(std::int64_t{gemv.rows} * gemv.cols * 2);
  made.inbox = DeviceMemory(inbox_bytes());
  made.targets = on_device(gemv.tables[at(r)].targets);
  made.sources = on_device(gemv.tables[at(r)].sources);
  GemvRank& to = arguments.ranks[r];
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
  std::vector<std::byte*> segments;
  for (int r = i.first; r < i.first + i.count; ++r) i.fill_rank(r), segments.push_back(segment(r));
  if (!options.rank) connect(segments);
  GemvArguments& a = i.arguments;
  a.failure = i.state.failure(), a.gave_up = i.state.gave_up(), a.run = i.state.run();
  a.deadline_ns = static_cast<unsigned long long>(options.deadline.count());
  a.inbox_words = i.gemv.inbox_elements / 2;
  a.rows = i.gemv.rows, a.cols = i.gemv.cols, a.depth = i.gemv.depth, a.tiles = i.gemv.tiles;
  a.num_targets = i.gemv.num_targets, a.num_sources = i.gemv.num_sources;
  a.first_rank = i.first;
  check_cuda(cudaStreamSynchronize(nullptr), "clear memory on the device");  // before others write there
}

CudaGemv::~CudaGemv() = default;

void CudaGemv::connect(std::span<std::byte* const> segments) {
  impl_->state.connect(impl_->plan, segments);
  for (std::size_t r = 0; r < segments.size(); ++r) impl_->arguments.ranks[r].inbox = segments[r];
}

std::byte* CudaGemv::segment(int rank) const { return impl_->own(rank).inbox.data(); }
std::int64_t CudaGemv::segment_bytes() const { return impl_->inbox_bytes(); }

void CudaGemv::start(std::span<const CudaOperands> operands, void* queue) {
  Impl& i = *impl_;
  i.state.require_usable(i.plan);
  i.throw_failure();
  if (operands.size() != num(i.count))
    bad_input("operands of {} ranks are given, but {} run here", operands.size(), i.count);
  for (const CudaOperands& one : operands) {
    check_aligned(one.x, 16, "x");
    check_aligned(one.w, 16, "w");
    check_aligned(one.y, 4, "y");
  }
  for (std::size_t r = 0; r < operands.size(); ++r) {
    GemvRank& to = i.arguments.ranks[num(i.first) + r];
    to.x = operands[r].x, to.w = operands[r].w;
    to.y = operands[r].y != nullptr ? operands[r].y : i.memory[r].y.data();
  }
  cudaLaunchConfig_t config{};
  config.gridDim = num(i.arguments.ctas_per_rank * i.count), config.blockDim = kGemvThreads;
  config.dynamicSmemBytes = num(i.kernel.shared_bytes);
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &dependent, config.numAttrs = i.options.launch == Launch::dependent ? 1 : 0;
  config.stream = i.queue = static_cast<cudaStream_t>(queue != nullptr ? queue : device_queue());
  launch(config, i.kernel.kernel, i.arguments);
}

void CudaGemv::finish() {
  check_cuda(impl_->options.rank ? cudaStreamSynchronize(impl_->queue) : cudaDeviceSynchronize(), "run the kernel");
  impl_->throw_failure();
}

void CudaGemv::abandon() { impl_->state.abandon(); }

void CudaGemv::Impl::throw_failure() {
  if (const DeviceFailure* left = state.failed()) throw Error(Code::deadline, describe_gemv(gemv, *left), left->rank);
}

std::byte* CudaGemv::output(int rank) const { return impl_->own(rank).y.data(); }
const GemvPlan& CudaGemv::tables() const { return impl_->gemv; }

}  // namespace weft
