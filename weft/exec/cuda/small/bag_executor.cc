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
#include "weft/exec/cuda/run_state.h"
#include "weft/exec/cuda/small/bags.h"

namespace weft {

struct CudaBags::Impl {
  Plan plan;
  Expander expander;
  CudaBagOptions options;
  BagPlan bags;
  std::vector<DeviceMemory> segments, lanes;  // of the ranks that run here
  DeviceMemory opens, arrivals, totals;       // of a rank that is launched alone
  RunState state;
  DeviceMemory refused{4};
  PinnedMemory refusal{sizeof(DeviceFailure)};
  BagArguments arguments{};
  int first, count;              // ranks that run here
  cudaStream_t queue = nullptr;  // of the latest run
  std::unique_ptr<CopyEngines> engines;
  std::uint32_t runs = 0;

  Impl(const Plan& plan_in, const CudaBagOptions& options_in)
      : plan(plan_in),
        expander(plan),
        options(options_in),
        bags(bag_plan(plan, expander, options.link, options.crossing_bytes)),
        first(options.rank.value_or(0)),
        count(options.rank ? 1 : plan.num_ranks) {}
  ~Impl() { cudaDeviceSynchronize(); }  // kernels and copies use this memory

  DeviceFailure& was_refused() const { return *reinterpret_cast<DeviceFailure*>(refusal.data()); }
  const DeviceMemory& own(int rank) const { return segments[at(rank - first)]; }
  Kernel<BagArguments> kernel() const { return bag_kernel(options.rank ? Ranks::one : Ranks::all); }
  void fill();
  void fill_meeting();
  void make_engines();
  void launch();
  void bind(std::span<const BagOperands> operands);
  void throw_failure();
  void throw_refusal();
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
  was_refused() = {};
  arguments.failure = state.failure(), arguments.gave_up = state.gave_up();
  arguments.refusal = &was_refused(), arguments.refused = reinterpret_cast<std::uint32_t*>(refused.data());
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
  to.run = state.run();
  to.deadline_ns = static_cast<unsigned long long>(options.deadline.count());
}

void CudaBags::Impl::launch() {
  cudaLaunchConfig_t config{};
  config.gridDim = num(arguments.ctas_per_rank * count), config.blockDim = kBagThreads;
  config.stream = queue;
  weft::launch(config, kernel(), arguments);
}

// Lanes are taken in listed order, and so each sender's crossings are filled in theirs.
void CudaBags::Impl::make_engines() {
  std::vector<std::byte*> places;
  for (const DeviceMemory& segment : segments) places.push_back(segment.data());
  std::vector<int> order(bags.device.crossings.size());
  std::iota(order.begin(), order.end(), 0);
  engines = std::make_unique<CopyEngines>(bags.device, std::move(places), std::move(order));
}

void CudaBags::Impl::bind(std::span<const BagOperands> operands) {
  if (operands.size() != num(count))
    bad_input("operands of {} ranks are given, but {} run here", operands.size(), count);
  std::size_t place = 0;
  for (std::size_t r = 0; r < operands.size(); ++r) {
    BagRank& to = arguments.ranks[num(first) + r];
    const std::size_t wanted = num(bags.tables[num(first) + r]), given = operands[r].tables.size();
    if (given != wanted)
      bad_input("plan \"{}\" pools {} tables of rank {}, but {} are given", plan.name, wanted, num(first) + r, given);
    if (place + given > kMaxCudaTables)
      bad_input("plan \"{}\" pools more than {} tables on this GPU; pool some of them by an op of their own", plan.name,
                kMaxCudaTables);
    to.first_table = static_cast<std::int32_t>(place);
    for (const CudaTable& table : operands[r].tables) {
      check_aligned(table.rows, 16, "a table");
      arguments.tables[place++] = table;
    }
  }
}

void CudaBags::Impl::throw_failure() {
  if (const DeviceFailure* left = state.failed())
    throw Error(Code::deadline, describe_bags(bags, expander, *left), left->rank);
}

// Once: the run went on without it, and the op is as good as before.
void CudaBags::Impl::throw_refusal() {
  if (*static_cast<volatile std::uint32_t*>(&was_refused().failed) == 0) return;
  const DeviceFailure left = was_refused();
  was_refused().failed = 0;
  set_word(refused.data(), 0);
  throw Error(Code::bad_input, describe_bags(bags, expander, left), left.rank);
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
  impl_->state.connect(impl_->plan, segments);
  for (std::size_t r = 0; r < segments.size(); ++r) {
    BagRank& to = impl_->arguments.ranks[r];
    to.segment = reinterpret_cast<std::uint8_t*>(segments[r]);
    to.counters = reinterpret_cast<std::uint32_t*>(to.segment + impl_->bags.device.layout[r].counters);
  }
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
  i.state.require_usable(i.plan);
  i.throw_failure();
  i.bind(operands);
  i.queue = static_cast<cudaStream_t>(queue != nullptr ? queue : device_queue());
  i.launch();
  if (i.engines) i.engines->enqueue(i.runs++, i.queue, i.options.sends == Sends::with_lanes);
  i.throw_refusal();  // of an earlier run; not instead of this one, for which other ranks wait
}

void CudaBags::start_copies() {
  if (impl_->engines) impl_->engines->enqueue(impl_->runs++, device_queue(), false);
}

void CudaBags::finish() {
  Impl& i = *impl_;
  if (i.engines)
    if (const auto stuck = await_copies(*i.engines, device_queue(), i.options.deadline)) {
      i.state.break_off();
      throw Error(Code::deadline, describe_crossing(i.plan, i.expander, i.bags.device, *stuck),
                  i.bags.device.crossings[at(stuck->index)].from);
    }
  check_cuda(i.options.rank ? cudaStreamSynchronize(i.queue) : cudaDeviceSynchronize(), "run the kernel");
  i.throw_failure();
  i.throw_refusal();
}

void CudaBags::abandon() { impl_->state.abandon(); }

std::byte* CudaBags::output(int rank) const { return impl_->own(rank).data(); }

std::vector<std::uint32_t> CudaBags::counters(int rank) const {
  const DeviceLayout& layout = impl_->bags.device.layout[at(rank)];
  return from_device<std::uint32_t>(impl_->own(rank).data() + layout.counters, num(layout.num_counters));
}

const BagPlan& CudaBags::tables() const { return impl_->bags; }
const Plan& CudaBags::plan() const { return impl_->plan; }

}  // namespace weft
