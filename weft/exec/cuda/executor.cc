#include "weft/exec/cuda/executor.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "weft/base/index.h"
#include "weft/exec/cuda/copy_engines.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/failure.h"
#include "weft/exec/cuda/gemm/fused_gemm.h"
#include "weft/exec/cuda/host_lanes.h"
#include "weft/exec/cuda/run_state.h"

namespace weft {
namespace {

// A bf16 matrix in rows, loaded and stored in swizzled boxes of 64 columns; what lies outside is read as 0.
CUtensorMap map_of(const void* data, std::int64_t rows, std::int64_t cols, std::uint32_t box_rows) {
  static const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  const cuuint64_t sizes[2] = {num(cols), num(std::max<std::int64_t>(rows, 1))}, pitch[1] = {num(cols * 2)};
  const cuuint32_t box[2] = {kStripCols, box_rows}, step[2] = {1, 1};
  CUtensorMap out;
  const CUresult status = encode(&out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(data), sizes, pitch, box,
                                 step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    bad_input("the GPU cannot read a matrix of {} x {}; let it begin at a multiple of 16 bytes", rows, cols);
  return out;
}

// What a rank has on the device.
struct RankMemory {
  DeviceMemory segment, lanes, works, triggers, waits, sources, targets, signals, fired, ended, counts;
  DeviceMemory times, met;  // of traced runs
};

RankMemory memory_of(const LaneTable& table, const DeviceLayout& layout, int num_ranks) {
  RankMemory out;
  out.segment = DeviceMemory(layout.bytes + 1);
  out.lanes = on_device(table.lanes);
  out.works = on_device(table.works);
  out.triggers = on_device(table.triggers);
  out.waits = on_device(table.waits);
  out.sources = on_device(table.sources);
  out.targets = on_device(table.targets);
  out.signals = on_device(table.signals);
  out.fired = DeviceMemory(std::max<std::int64_t>(int_size(table.triggers), 1) * 4);
  out.ended = DeviceMemory(std::max<std::int64_t>(table.parted, 1) * 4);
  out.counts = on_device(device_counts({}, num_ranks));
  return out;
}

// Whether ranks write no output but their own. Copies of crossings go to the executor's memory.
bool writes_own_outputs(const DevicePlan& device) {
  if (!device.crossings.empty()) return false;
  for (int r = 0; r < int_size(device.tables); ++r)
    for (const DevicePlace& to : device.tables[at(r)].targets)
      if (to.rank != r && to.matrix == device.output) return false;
  return true;
}

bool is_narrow(Dtype type, const char* name) {
  if (type != Dtype::f32 && type != Dtype::bf16) bad_input("{} is {}; give f32 or bf16", name, to_string(type));
  return type == Dtype::bf16;
}

FusedGemm kernel_of(const Plan& plan, const DevicePlan& device, bool trace) {
  const bool wide = device.sums == Dtype::f32;
  if (wide && trace) bad_input("plan \"{}\" sums in f32; a GPU's timeline shows sums of bf16: leave it out", plan.name);
  const auto kernel = wide ? wide_gemm_of : trace ? traced_gemm_of : fused_gemm_of;
  return kernel(plan.producers[0].layout(), plan.producers[0].has_epilogue());
}

DevicePlan tables_of(const Plan& plan, const CudaOptions& options) {
  DevicePlan out = device_plan(plan, Expander(plan), options.order);
  if (options.link == CudaLink::pcie) cross_by_copies(plan, &out, options.crossing_bytes);
  return out;
}

}  // namespace

struct CudaExecutor::Impl {
  Plan plan;
  Expander expander;
  CudaOptions options;
  DevicePlan device;
  FusedGemm gemm;
  std::vector<RankMemory> memory;
  std::vector<CudaOperands> operands;  // whose maps the arguments hold
  DeviceMemory links;
  std::optional<RunState> state;  // once there is known to be a GPU
  DeviceArguments arguments{};
  std::unique_ptr<CopyEngines> engines;  // of link pcie
  std::unique_ptr<DeviceTimer> timer;    // of link pcie: the kernel
  std::uint32_t runs = 0;                // that were enqueued
  int first, count;                      // ranks that run here
  bool own_output;                       // whether no rank writes another's

  Impl(const Plan& plan_in, DevicePlan tables, const CudaOptions& options_in)
      : plan(plan_in),
        expander(plan),
        options(options_in),
        device(std::move(tables)),
        gemm(kernel_of(plan, device, options.trace)),
        first(options.rank.value_or(0)),
        count(options.rank ? 1 : plan.num_ranks),
        own_output(writes_own_outputs(device)) {}
  ~Impl() {
    if (state) cudaDeviceSynchronize();  // kernels read this memory
  }

  RankMemory& own(int rank) { return memory[at(rank - first)]; }
  const DeviceMatrixShape& output_shape(int rank) const { return device.layout[at(rank)].matrices[at(device.output)]; }
  void share_device();
  void fill_rank(int rank);
  void place_rank(int rank, std::byte* segment);
  void place_output(int rank, void* y);
  void trace_rank(int rank);
  void fill_pace();
  void bind(std::span<const CudaOperands> given);
  void launch();
  void make_engines();
  void throw_failure();
  std::uint32_t cols_of_cta() const {  // of w, that each CTA of a cluster loads
    return static_cast<std::uint32_t>(kCudaTileCols / halves_of(device.sums) / 2);
  }
  cudaStream_t queue() const {
    return static_cast<cudaStream_t>(options.queue != nullptr ? options.queue : device_queue());
  }
};

// How many clusters can be resident at once is what the launch checks, too.
void CudaExecutor::Impl::share_device() {
  const auto facts = device_facts();
  if (!facts) bad_input("there is no GPU here; run the plan on the CPU");
  if (facts->major != 9)
    bad_input("{} is not a Hopper GPU (compute capability 9.0); run the plan on the CPU", facts->name);
  check_cuda(
      cudaFuncSetAttribute(handle_of(gemm.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, gemm.shared_bytes),
      "give the kernel its shared memory");
  cudaLaunchConfig_t config{};
  config.gridDim = 2, config.blockDim = num(gemm.threads), config.dynamicSmemBytes = num(gemm.shared_bytes);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  config.attrs = &cluster, config.numAttrs = 1;
  int clusters = 0;
  check_cuda(cudaOccupancyMaxActiveClusters(&clusters, handle_of(gemm.kernel), &config), "ask how many clusters fit");
  arguments.clusters_per_rank = clusters / (count * options.launches);
  if (options.clusters_per_rank > 0)
    arguments.clusters_per_rank = std::min(arguments.clusters_per_rank, options.clusters_per_rank);
  if (arguments.clusters_per_rank < 1)
    bad_input("{} ranks do not fit on {}; use at most {}", count * options.launches, facts->name, clusters);
}

// What all who write to a rank must know of it.
void CudaExecutor::Impl::place_rank(int r, std::byte* segment) {
  const DeviceLayout& layout = device.layout[at(r)];
  DeviceRank& to = arguments.ranks[r];
  to.segment = reinterpret_cast<std::uint8_t*>(segment);
  for (std::size_t i = 0; i < layout.matrices.size(); ++i) {
    const DeviceMatrixShape& matrix = layout.matrices[i];
    to.matrix_rows[i] = static_cast<std::int32_t>(matrix.rows),
    to.matrix_cols[i] = static_cast<std::int32_t>(matrix.cols);
    if (matrix.buffer < 0) continue;  // x: bound at each run
    to.matrices[i] = to.segment + matrix.offset;
    to.maps[i] = map_of(to.matrices[i], matrix.rows, matrix.cols, kCudaTileRows);
  }
  to.counters = reinterpret_cast<std::uint32_t*>(to.segment + layout.counters);
  to.stamps = reinterpret_cast<unsigned long long*>(to.segment + layout.stamps);
}

void CudaExecutor::Impl::fill_rank(int r) {
  const LaneTable& table = device.tables[at(r)];
  memory.push_back(memory_of(table, device.layout[at(r)], plan.num_ranks));
  const RankMemory& m = memory.back();
  DeviceRank& to = arguments.ranks[r];
  to.lanes = reinterpret_cast<const DeviceLane*>(m.lanes.data());
  to.works = reinterpret_cast<const DeviceWork*>(m.works.data());
  to.triggers = reinterpret_cast<const DeviceLane*>(m.triggers.data());
  to.waits = reinterpret_cast<const DeviceWait*>(m.waits.data());
  to.sources = reinterpret_cast<const DevicePlace*>(m.sources.data());
  to.targets = reinterpret_cast<const DevicePlace*>(m.targets.data());
  to.signals = reinterpret_cast<const DeviceSignal*>(m.signals.data());
  to.fired = reinterpret_cast<std::uint32_t*>(m.fired.data());
  to.ended = reinterpret_cast<std::uint32_t*>(m.ended.data());
  to.counts = reinterpret_cast<const std::int32_t*>(m.counts.data());
  to.pairs = int_size(table.lanes) / 2, to.num_triggers = int_size(table.triggers);
  if (options.trace) trace_rank(r);
}

void CudaExecutor::Impl::trace_rank(int r) {
  const LaneTable& table = device.tables[at(r)];
  RankMemory& m = own(r);
  m.times = on_device(std::vector<LaneTimes>(table.lanes.size() + table.triggers.size()));
  m.met = on_device(std::vector<std::uint64_t>(table.waits.size()));
  arguments.ranks[r].times = reinterpret_cast<LaneTimes*>(m.times.data());
  arguments.ranks[r].met = reinterpret_cast<std::uint64_t*>(m.met.data());
}

void CudaExecutor::Impl::fill_pace() {
  arguments.ranks_per_host = 1;
  if (!options.pace) return;
  if (options.link == CudaLink::pcie) bad_input("a link over pcie is as fast as it is; leave out its rate");
  if (options.rank && options.pace->fabric == Fabric::nic)
    bad_input("ranks with a launch each have no NIC in common; leave out \",nic\", or run all ranks in one launch");
  if (options.rank && options.pace->ranks_per_host > 1)
    bad_input("ranks with a launch each are paced as hosts of their own; {} per host need one launch for all",
              options.pace->ranks_per_host);
  arguments.ns_per_byte = static_cast<float>(1e9 / options.pace->bytes_per_s);
  arguments.latency_ns = static_cast<float>(options.pace->latency_s * 1e9);
  arguments.ranks_per_host = options.pace->ranks_per_host;
  arguments.shares_nics = options.pace->fabric == Fabric::nic;
}

// What cannot be bound throws, and leaves bound what was.
void CudaExecutor::Impl::bind(std::span<const CudaOperands> given) {
  if (given.size() != num(count)) bad_input("operands of {} ranks are given, but {} run here", given.size(), count);
  const Producer& p = plan.producers[0];
  operands.resize(given.size());
  for (std::size_t r = 0; r < given.size(); ++r) {
    DeviceRank& to = arguments.ranks[num(first) + r];
    for (const auto& [name, wanted, found] : {std::tuple{"bias", p.bias, given[r].bias != nullptr},
                                              std::tuple{"residual", p.residual, given[r].residual != nullptr}})
      if (wanted != found)
        bad_input("plan \"{}\" {} a {}, but rank {} {} one", plan.name, wanted ? "has" : "has not", name,
                  num(first) + r, found ? "gives" : "gives not");
    const bool narrow_bias = is_narrow(given[r].bias_type, "bias");
    const bool narrow_residual = is_narrow(given[r].residual_type, "residual");
    check_aligned(given[r].bias, narrow_bias ? 4 : 8, "bias");
    check_aligned(given[r].residual, narrow_residual ? 4 : 8, "residual");
    CudaOperands& bound = operands[r];
    if (given[r].x != bound.x) to.maps[0] = map_of(given[r].x, p.m, to.matrix_cols[0], kCudaTileRows);
    bound.x = given[r].x;
    if (p.has_w() && given[r].w != bound.w)
      to.w = p.layout() == WeightLayout::nk ? map_of(given[r].w, p.n, p.k, cols_of_cta())
                                            : map_of(given[r].w, p.k, p.n, kBlockDepth);
    bound.w = given[r].w;
    if (given[r].y != bound.y) place_output(first + static_cast<int>(r), given[r].y);
    to.bias = given[r].bias, to.residual = given[r].residual;
    to.narrow_bias = narrow_bias, to.narrow_residual = narrow_residual;
    bound = given[r];
  }
}

// Null: the executor's own memory.
void CudaExecutor::Impl::place_output(int rank, void* y) {
  if (y != nullptr && !own_output)
    bad_input("other ranks write the output of plan \"{}\"; leave it in the op's memory and copy it", plan.name);
  const DeviceMatrixShape& shape = output_shape(rank);
  DeviceRank& to = arguments.ranks[rank];
  auto* own_y = reinterpret_cast<std::uint8_t*>(own(rank).segment.data() + shape.offset);
  auto* place = y != nullptr ? static_cast<std::uint8_t*>(y) : own_y;
  to.maps[device.output] = map_of(place, shape.rows, shape.cols, kCudaTileRows);
  to.matrices[device.output] = place;
}

void CudaExecutor::Impl::launch() {
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(2 * arguments.clusters_per_rank * count);
  config.blockDim = num(gemm.threads), config.dynamicSmemBytes = num(gemm.shared_bytes);
  // Ranks wait for one another, so all of them are resident at once; of launches that share a GPU none knows of the
  // others. One rank waits for nobody: its launch may begin while the one before it ends (follow_launch).
  cudaLaunchAttribute how{};
  if (plan.num_ranks > 1)
    how.id = cudaLaunchAttributeCooperative, how.val.cooperative = options.launches == 1;
  else
    how.id = cudaLaunchAttributeProgrammaticStreamSerialization, how.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &how, config.numAttrs = 1;
  config.stream = queue();
  if (options.trace)  // what a run does not come to has no time, whatever the one before did
    for (RankMemory& one : memory) one.times.clear_later(queue()), one.met.clear_later(queue());
  if (timer) timer->begin(queue());
  weft::launch(config, gemm.kernel, arguments);
  if (timer) timer->end(queue());
  if (engines) engines->enqueue(runs, queue());
  ++runs;
}

// A sender's crossings wait in one queue, so they are enqueued in an order in which they can be made: that of the twin.
void CudaExecutor::Impl::make_engines() {
  if (device.crossings.empty()) return;
  HostLanes twin(plan, device, arguments.clusters_per_rank);
  twin.run();
  std::vector<int> order = twin.crossed();
  for (int i = 0; i < int_size(device.crossings); ++i)
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  std::vector<std::byte*> segments;
  for (const RankMemory& one : memory) segments.push_back(one.segment.data());
  engines = std::make_unique<CopyEngines>(device, std::move(segments), std::move(order));
  timer = std::make_unique<DeviceTimer>();
}

CudaExecutor::CudaExecutor(const Plan& plan, const CudaOptions& options)
    : CudaExecutor(plan, tables_of(plan, options), options) {
  require_ending(impl_->plan, impl_->device, impl_->arguments.clusters_per_rank);
}

CudaExecutor::CudaExecutor(const Plan& plan, DevicePlan tables, const CudaOptions& options)
    : impl_(std::make_unique<Impl>(plan, std::move(tables), options)) {
  Impl& i = *impl_;
  i.share_device();
  i.state.emplace();
  for (int r = i.first; r < i.first + i.count; ++r) i.fill_rank(r);
  i.fill_pace();
  if (!options.rank) {
    std::vector<std::byte*> segments;
    for (const RankMemory& one : i.memory) segments.push_back(one.segment.data());
    connect(segments);
  }
  i.make_engines();
  i.links = DeviceMemory(kMaxCudaRanks * kMaxCudaRanks * 8);
  i.arguments.failure = i.state->failure(), i.arguments.gave_up = i.state->gave_up(), i.arguments.run = i.state->run();
  i.arguments.num_ranks = plan.num_ranks, i.arguments.first_rank = i.first;
  i.arguments.columns = static_cast<std::int32_t>(plan.producers[0].n);
  i.arguments.activation = plan.producers[0].activation;
  i.arguments.links = reinterpret_cast<unsigned long long*>(i.links.data());
  i.arguments.deadline_ns = static_cast<unsigned long long>(options.deadline.count());
  limit({});
  i.arguments.k_blocks = static_cast<std::int32_t>(ceil_div(plan.producers[0].k, kBlockDepth));
  check_cuda(cudaStreamSynchronize(nullptr), "clear memory on the device");  // before others write there
}

CudaExecutor::~CudaExecutor() = default;

void CudaExecutor::connect(std::span<std::byte* const> segments) {
  impl_->state->connect(impl_->plan, segments);
  for (std::size_t r = 0; r < segments.size(); ++r) impl_->place_rank(static_cast<int>(r), segments[r]);
}

std::byte* CudaExecutor::segment(int rank) const { return impl_->own(rank).segment.data(); }

std::int64_t CudaExecutor::segment_bytes() const {
  std::int64_t most = 0;
  for (const DeviceLayout& layout : impl_->device.layout) most = std::max(most, layout.bytes);
  return most;
}

void CudaExecutor::start(std::span<const CudaOperands> operands, void* queue) {
  impl_->options.queue = queue;
  start(operands);
}

void CudaExecutor::start(std::span<const CudaOperands> operands) {
  impl_->state->require_usable(impl_->plan);
  impl_->throw_failure();
  if (impl_->engines && is_recorded(impl_->queue()))
    bad_input("a run over pcie cannot be recorded in a graph; start it, or use another link");
  impl_->bind(operands);
  impl_->launch();
}

void CudaExecutor::limit(std::span<const Counts> counts) {
  if (!counts.empty() && counts.size() != num(impl_->count))
    bad_input("counts of {} ranks are given, but {} run here", counts.size(), impl_->count);
  std::vector<std::vector<std::int32_t>> values;
  for (int r = 0; r < impl_->count; ++r) {
    values.push_back(device_counts(counts.empty() ? Counts{} : counts[at(r)], impl_->plan.num_ranks));
    std::copy(values.back().begin(), values.back().end(), impl_->arguments.ranks[impl_->first + r].given_counts);
  }
  impl_->arguments.counts_on_device = 0;
  if (impl_->engines) impl_->engines->limit(std::move(values));
}

std::int32_t* CudaExecutor::counts(int rank) {
  impl_->arguments.counts_on_device = 1;
  if (impl_->engines) impl_->engines->limit({});
  return reinterpret_cast<std::int32_t*>(impl_->own(rank).counts.data());
}

void CudaExecutor::finish() {
  Impl& i = *impl_;
  if (i.engines)
    if (const auto stuck = await_copies(*i.engines, i.queue(), i.options.deadline)) {
      i.state->break_off();
      throw Error(Code::deadline, describe_crossing(i.plan, i.expander, i.device, *stuck),
                  i.device.crossings[at(stuck->index)].from);
    }
  check_cuda(i.options.rank ? cudaStreamSynchronize(i.queue()) : cudaDeviceSynchronize(), "run the kernel");
  i.throw_failure();
}

double CudaExecutor::kernel_us() {
  if (!impl_->timer) bad_input("kernels are timed over pcie alone; time the run");
  return impl_->timer->us();
}

void CudaExecutor::abandon() { impl_->state->abandon(); }

void CudaExecutor::Impl::throw_failure() {
  if (const DeviceFailure* left = state->failed())
    throw Error(Code::deadline, describe(plan, expander, device, *left), left->rank);
}

const std::byte* CudaExecutor::output(int rank) const {
  return impl_->own(rank).segment.data() + impl_->output_shape(rank).offset;
}

bool CudaExecutor::own_output() const { return impl_->own_output; }

std::vector<std::uint32_t> CudaExecutor::counters(int rank) const {
  const DeviceLayout& layout = impl_->device.layout[at(rank)];
  return from_device<std::uint32_t>(impl_->own(rank).segment.data() + layout.counters, num(layout.num_counters));
}

DeviceTimes CudaExecutor::times() const {
  const Impl& i = *impl_;
  if (!i.options.trace) fail(Code::internal, "plan \"{}\" was compiled without CudaOptions::trace", i.plan.name);
  const auto run = from_device<std::uint32_t>(i.state->run(), 1)[0];
  DeviceTimes out{run - 1, i.first, i.arguments.clusters_per_rank, {}};
  for (int r = i.first; r < i.first + i.count; ++r) {
    const LaneTable& table = i.device.tables[at(r)];
    const RankMemory& m = i.memory[at(r - i.first)];
    out.ranks.push_back({from_device<LaneTimes>(m.times.data(), table.lanes.size() + table.triggers.size()),
                         from_device<std::uint64_t>(m.met.data(), table.waits.size())});
  }
  return out;
}

const Plan& CudaExecutor::plan() const { return impl_->plan; }
const DevicePlan& CudaExecutor::tables() const { return impl_->device; }
int CudaExecutor::clusters_per_rank() const { return impl_->arguments.clusters_per_rank; }

}  // namespace weft
