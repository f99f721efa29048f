#include "weft/exec/cuda/small/bag_executor.h"

#include <cuda_runtime.h>

#include <algorithm>
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
  std::vector<DeviceMemory> segments, lanes;  // of the ranks that run here
  DeviceMemory opens, arrivals, totals;       // of a rank that is launched alone
  DeviceMemory gave_up{4}, run{8};
  PinnedMemory failure{sizeof(DeviceFailure)};
  BagArguments arguments{};
  int first, count;              // ranks that run here
  cudaStream_t queue = nullptr;  // of the latest run
  std::unique_ptr<CopyEngines> engines;
  std::uint32_t runs = 0;
  bool connected = false, broken = false;

  Impl(const Plan& plan_in, const CudaBagOptions& options_in)
      : plan(plan_in),
        expander(plan),
        options(options_in),
        bags(bag_plan(plan, expander, options.link, options.crossing_bytes)),
        first(options.rank.value_or(0)),
        count(options.rank ? 1 : plan.num_ranks) {}
  ~Impl() { cudaDeviceSynchronize(); }  // kernels and copies use this memory

  DeviceFailure& failed() const { return *reinterpret_cast<DeviceFailure*>(failure.data()); }
  const DeviceMemory& own(int rank) const { return segments[at(rank - first)]; }
  Kernel<BagArguments> kernel() const { return bag_kernel(options.rank ? Ranks::one : Ranks::all); }
  void fill();
  void fill_meeting();
  void make_engines();
  void launch();
  void throw_failure();
};

void CudaBags::Impl::fill() {
  int per_multiprocessor = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, handle_of(kernel()), kBagThreads, 0),
             "ask how many CTAs fit");
  const int fit = per_multiprocessor * device_facts()->multiprocessors / (count * options.launches);
  if (fit < 1) bad_input("{} ranks do not fit on this GPU; use fewer", count * options.launches);
  arguments.first_rank = first, arguments.ctas_per_rank = fit;
  arguments.dim = bags.dim, arguments.pooling = bags.pooling;
  for (int r = first; r < first + count; ++r) {
    segments.emplace_back(bags.device.layout[at(r)].bytes + 1);
    lanes.push_back(on_device(bags.lanes[at(r)]));
    BagRank& to = arguments.ranks[r];
    to.lanes = reinterpret_cast<const BagLane*>(lanes.back().data());
    to.num_lanes = int_size(bags.lanes[at(r)]);
  }
  failed() = {};
  arguments.failure = &failed(), arguments.gave_up = reinterpret_cast<std::uint32_t*>(gave_up.data());
  if (options.rank) fill_meeting();
}

void CudaBags::Impl::fill_meeting() {
  if (options.link == CudaLink::pcie)
    bad_input("bags over pcie need all ranks in one launch; let ranks reach each other's memory");
  const BagMeetings& from = bags.meetings[at(first)];
  opens = on_device(from.opens), arrivals = on_device(from.arrivals), totals = on_device(from.totals);
  BagMeeting& to = arguments.meeting;
  to.opens = reinterpret_cast<const DeviceSignal*>(opens.data());
  to.arrivals = reinterpret_cast<const DeviceWait*>(arrivals.data());
  to.totals = reinterpret_cast<const std::uint32_t*>(totals.data());
  to.num_opens = int_size(from.opens), to.num_arrivals = int_size(from.arrivals);
  to.run = reinterpret_cast<std::uint32_t*>(run.data());
  to.deadline_ns = static_cast<unsigned long long>(options.deadline.count());
}

void CudaBags::Impl::launch() {
  cudaLaunchConfig_t config{};
  config.gridDim = num(arguments.ctas_per_rank * count), config.blockDim = kBagThreads;
  config.stream = queue;
  check_cuda(weft::launch(config, kernel(), arguments), "launch the kernel");
}

// Lanes are taken in listed order, and so each sender's crossings are filled in theirs.
void CudaBags::Impl::make_engines() {
  std::vector<std::byte*> places;
  for (const DeviceMemory& segment : segments) places.push_back(segment.data());
  std::vector<int> order(bags.device.crossings.size());
  std::iota(order.begin(), order.end(), 0);
  engines = std::make_unique<CopyEngines>(bags.device, std::move(places), std::move(order));
}

// Seen in memory of the host, where the device leaves it.
void CudaBags::Impl::throw_failure() {
  if (*static_cast<volatile std::uint32_t*>(&failed().failed) == 0) return;
  broken = true;
  const Code code = failed().trigger == kWildIndex ? Code::bad_input : Code::deadline;
  throw Error(code, describe_bags(bags, expander, failed()), failed().rank);
}

CudaBags::CudaBags(const Plan& plan, const CudaBagOptions& options) {
  if (!device_facts()) bad_input("there is no GPU here; run the plan on the CPU");
  impl_ = std::make_unique<Impl>(plan, options);
  impl_->fill();
  if (!options.rank) {
    std::vector<std::byte*> segments;
    for (int r = 0; r < plan.num_ranks; ++r) segments.push_back(segment(r));
    connect(segments);
  }
  if (options.link == CudaLink::pcie) impl_->make_engines();
  check_cuda(cudaStreamSynchronize(nullptr), "clear memory on the device");  // before others write there
}

void CudaBags::connect(std::span<std::byte* const> segments) {
  if (segments.size() != num(impl_->plan.num_ranks))
    bad_input("segments of {} ranks are given, but the plan has {}", segments.size(), impl_->plan.num_ranks);
  for (std::size_t r = 0; r < segments.size(); ++r) {
    BagRank& to = impl_->arguments.ranks[r];
    to.segment = reinterpret_cast<std::uint8_t*>(segments[r]);
    to.counters = reinterpret_cast<std::uint32_t*>(to.segment + impl_->bags.device.layout[r].counters);
  }
  impl_->connected = true;
}

std::byte* CudaBags::segment(int rank) const { return impl_->own(rank).data(); }

std::int64_t CudaBags::segment_bytes() const {
  std::int64_t most = 0;
  for (const DeviceLayout& layout : impl_->bags.device.layout) most = std::max(most, layout.bytes);
  return most;
}

CudaBags::~CudaBags() = default;

void CudaBags::start(std::span<const BagOperands> operands, void* queue) {
  Impl& i = *impl_;
  if (i.broken) fail(Code::deadline, "a run of plan \"{}\" has failed; make a new op", i.plan.name);
  if (!i.connected) fail(Code::internal, "plan \"{}\" is run before its ranks are connected", i.plan.name);
  i.throw_failure();
  if (operands.size() != num(i.count))
    bad_input("operands of {} ranks are given, but {} run here", operands.size(), i.count);
  i.queue = static_cast<cudaStream_t>(queue != nullptr ? queue : device_queue());
  for (std::size_t r = 0; r < operands.size(); ++r) {
    BagRank& to = i.arguments.ranks[num(i.first) + r];
    to.tables = operands[r].tables, to.indices = operands[r].indices, to.offsets = operands[r].offsets;
    to.rows = operands[r].rows;
  }
  i.launch();
  if (i.engines) i.engines->enqueue(i.runs++, i.queue, i.options.sends == Sends::with_lanes);
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
  check_cuda(i.options.rank ? cudaStreamSynchronize(i.queue) : cudaDeviceSynchronize(), "run the kernel");
  i.throw_failure();
}

void CudaBags::abandon() {
  impl_->broken = true;
  set_word(impl_->gave_up.data(), 1);
}

std::byte* CudaBags::output(int rank) const { return impl_->own(rank).data(); }

std::vector<std::uint32_t> CudaBags::counters(int rank) const {
  const DeviceLayout& layout = impl_->bags.device.layout[at(rank)];
  return from_device<std::uint32_t>(impl_->own(rank).data() + layout.counters, num(layout.num_counters));
}

const BagPlan& CudaBags::tables() const { return impl_->bags; }

}  // namespace weft
