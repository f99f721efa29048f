#include "weft/exec/cuda/small/bag_executor.h"

#include <cuda_runtime.h>

#include <numeric>
#include <utility>

#include "weft/base/index.h"
#include "weft/exec/cuda/copy_engines.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/failure.h"
#include "weft/exec/cuda/small/bags.h"

namespace weft {

struct CudaBags::Impl {
  Plan plan;
  Expander expander;
  CudaBagOptions options;
  BagPlan bags;
  std::vector<DeviceMemory> segments, lanes;
  BagArguments arguments{};
  std::unique_ptr<CopyEngines> engines;
  std::uint32_t runs = 0;
  unsigned blocks = 0;
  bool broken = false;

  Impl(const Plan& plan_in, const CudaBagOptions& options_in)
      : plan(plan_in),
        expander(plan),
        options(options_in),
        bags(bag_plan(plan, expander, options.link, options.crossing_bytes)) {}
  ~Impl() { cudaDeviceSynchronize(); }  // kernels and copies use this memory

  void fill();
};

void CudaBags::Impl::fill() {
  int per_multiprocessor = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, bag_kernel(), kBagThreads, 0),
             "ask how many CTAs fit");
  const int fit = per_multiprocessor * device_facts()->multiprocessors;
  blocks = static_cast<unsigned>(fit / plan.num_ranks * plan.num_ranks);
  arguments.num_ranks = plan.num_ranks, arguments.dim = bags.dim, arguments.pooling = bags.pooling;
  std::vector<std::byte*> places;
  for (int r = 0; r < plan.num_ranks; ++r) {
    segments.emplace_back(bags.device.layout[at(r)].bytes + 1);
    lanes.push_back(on_device(bags.lanes[at(r)]));
    places.push_back(segments.back().data());
    BagRank& to = arguments.ranks[r];
    to.segment = reinterpret_cast<std::uint8_t*>(places.back());
    to.counters = reinterpret_cast<std::uint32_t*>(to.segment + bags.device.layout[at(r)].counters);
    to.lanes = reinterpret_cast<const BagLane*>(lanes.back().data());
    to.num_lanes = int_size(bags.lanes[at(r)]);
  }
  if (options.link != CudaLink::pcie) return;
  // Lanes are taken in listed order, and so each sender's crossings are filled in theirs.
  std::vector<int> order(bags.device.crossings.size());
  std::iota(order.begin(), order.end(), 0);
  engines = std::make_unique<CopyEngines>(bags.device, std::move(places), std::move(order));
}

CudaBags::CudaBags(const Plan& plan, const CudaBagOptions& options) {
  if (!device_facts()) bad_input("there is no GPU here; run the plan on the CPU");
  impl_ = std::make_unique<Impl>(plan, options);
  impl_->fill();
}

CudaBags::~CudaBags() = default;

void CudaBags::start(std::span<const BagOperands> operands) {
  Impl& i = *impl_;
  if (i.broken) fail(Code::deadline, "a run of plan \"{}\" has failed; make a new op", i.plan.name);
  if (operands.size() != num(i.plan.num_ranks))
    bad_input("operands of {} ranks are given, but the plan has {}", operands.size(), i.plan.num_ranks);
  for (std::size_t r = 0; r < operands.size(); ++r) {
    BagRank& to = i.arguments.ranks[r];
    to.tables = operands[r].tables, to.indices = operands[r].indices, to.offsets = operands[r].offsets;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = i.blocks, config.blockDim = kBagThreads;
  config.stream = static_cast<cudaStream_t>(device_queue());
  void* given[] = {&i.arguments};
  check_cuda(cudaLaunchKernelExC(&config, bag_kernel(), given), "launch the kernel");
  if (i.engines) i.engines->enqueue(i.runs++, device_queue(), i.options.sends == Sends::with_lanes);
}

void CudaBags::start_copies() {
  if (impl_->engines) impl_->engines->enqueue(impl_->runs++, device_queue(), false);
}

void CudaBags::finish() {
  Impl& i = *impl_;
  if (i.engines)
    if (const auto stuck = await_copies(*i.engines, device_queue(), i.options.deadline)) {
      i.broken = true;
      throw Error(Code::deadline, describe_crossing(i.plan, i.expander, i.bags.device, *stuck),
                  i.bags.device.crossings[at(stuck->index)].from);
    }
  check_cuda(cudaDeviceSynchronize(), "run the kernel");
}

std::byte* CudaBags::output(int rank) const { return impl_->segments[at(rank)].data(); }

std::vector<std::uint32_t> CudaBags::counters(int rank) const {
  const DeviceLayout& layout = impl_->bags.device.layout[at(rank)];
  return from_device<std::uint32_t>(impl_->segments[at(rank)].data() + layout.counters, num(layout.num_counters));
}

const BagPlan& CudaBags::tables() const { return impl_->bags; }

}  // namespace weft
