#include "weft/exec/cuda/copy_engines.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "weft/base/index.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

void wait_value(cudaStream_t queue, const void* word, std::uint32_t value) {
  static const auto call = driver_function<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
  // GEQ compares modulo 2^32, as waits of plans do.
  if (call(queue, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS)
    fail(Code::internal, "CUDA could not let a queue wait for a counter");
}

// After all that stands in the queue before: the default flags order memory too.
void write_value(cudaStream_t queue, void* word, std::uint32_t value) {
  static const auto call = driver_function<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32");
  if (call(queue, reinterpret_cast<CUdeviceptr>(word), value, CU_STREAM_WRITE_VALUE_DEFAULT) != CUDA_SUCCESS)
    fail(Code::internal, "CUDA could not let a queue write a counter");
}

struct CopyQueues {
  cudaStream_t out[kMaxCudaRanks], in[kMaxCudaRanks], aside;

  CopyQueues() {
    // Beside the default stream: they wait for kernels while others are launched.
    const auto make = [](cudaStream_t* queue) {
      check_cuda(cudaStreamCreateWithFlags(queue, cudaStreamNonBlocking), "make a queue for copies");
    };
    for (int r = 0; r < kMaxCudaRanks; ++r) make(out + r), make(in + r);
    make(&aside);
  }
};

const CopyQueues& copy_queues() {
  static const CopyQueues queues;
  return queues;
}

cudaEvent_t make_event() {
  cudaEvent_t made = nullptr;
  check_cuda(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "make an event");
  return made;
}

void copy_box(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch,
              const CrossingCopy& box, cudaMemcpyKind kind, cudaStream_t queue) {
  const cudaError_t status = box.height == 1 ? cudaMemcpyAsync(to, from, num(box.width), kind, queue)
                                             : cudaMemcpy2DAsync(to, num(to_pitch), from, num(from_pitch),
                                                                 num(box.width), num(box.height), kind, queue);
  check_cuda(status, "copy between the device and the host");
}

}  // namespace

struct CopyEngines::Impl {
  const DevicePlan& device;
  std::vector<std::byte*> segments;
  std::vector<int> order;
  std::vector<std::int64_t> staged;                // per crossing: where it lies on the host
  std::vector<cudaEvent_t> is_out;                 // per crossing
  std::array<std::vector<int>, kMaxCudaRanks> of;  // each sender's, in order
  std::vector<std::uint32_t> place;                // per crossing: how many of its sender's come before it
  std::array<std::size_t, kMaxCudaRanks> sent{};   // of each sender's, in the run that is being enqueued
  cudaEvent_t joined = make_event();
  PinnedMemory host, words{(kMaxCudaRanks + 1) * 4};
  std::uint32_t runs = 0;
  std::vector<std::vector<std::int32_t>> counts;        // by sender; empty: all rows
  std::array<std::uint32_t, kMaxCudaRanks + 1> last{};  // of the words, when they were looked at
  Clock::time_point changed = Clock::now();

  Impl(const DevicePlan& device_in, std::vector<std::byte*> segments_in, std::vector<int> order_in)
      : device(device_in), segments(std::move(segments_in)), order(std::move(order_in)) {}
  ~Impl() {
    for (const cudaEvent_t event : is_out) cudaEventDestroy(event);
    cudaEventDestroy(joined);
  }
  // How many crossings of a sender have left it since it was made; then how many kernels have ended.
  volatile std::uint32_t* word(int index) const { return reinterpret_cast<std::uint32_t*>(words.data()) + index; }
  std::byte* counter(int rank, std::uint32_t index) const {
    return segments[at(rank)] + device.layout[at(rank)].counters + std::int64_t{index} * 4;
  }
  void send(int index, std::uint32_t run, bool by_lanes);
};

CopyEngines::CopyEngines(const DevicePlan& device, std::vector<std::byte*> segments, std::vector<int> order)
    : impl_(std::make_unique<Impl>(device, std::move(segments), std::move(order))) {
  std::int64_t bytes = 0;
  for (const Crossing& crossing : device.crossings) {
    impl_->staged.push_back(bytes);
    if (crossing.from != crossing.to) bytes += crossing.bytes();
    impl_->is_out.push_back(make_event());
  }
  impl_->place.resize(device.crossings.size());
  for (const int index : impl_->order) {
    std::vector<int>& of = impl_->of[at(device.crossings[at(index)].from)];
    impl_->place[at(index)] = static_cast<std::uint32_t>(of.size());
    of.push_back(index);
  }
  impl_->host = PinnedMemory(bytes + 1);
  copy_queues();
}

CopyEngines::~CopyEngines() = default;

void CopyEngines::Impl::send(int index, std::uint32_t run, bool by_lanes) {
  const Crossing& c = device.crossings[at(index)];
  const bool stays = c.from == c.to;
  const cudaStream_t out = copy_queues().out[c.from], in = stays ? out : copy_queues().in[c.from];
  if (by_lanes) wait_value(out, counter(c.from, c.counter), (run + 1) * c.lanes);
  const auto each = [&](cudaStream_t queue, bool leaves) {
    std::byte* between = host.data() + staged[at(index)];
    for (const CrossingCopy& whole : c.copies) {
      const CrossingCopy box = counts.empty() ? trimmed(whole, {}) : trimmed(whole, counts[at(c.from)]);
      const std::int64_t further = run % num(box.depth) * box.copy_bytes;
      if (box.bytes() == 0) continue;
      std::byte *from = segments[at(c.from)] + box.from + further, *to = segments[at(c.to)] + box.to + further;
      if (stays)
        copy_box(to, box.pitch, from, box.pitch, box, cudaMemcpyDeviceToDevice, queue);
      else if (leaves)
        copy_box(between, box.width, from, box.pitch, box, cudaMemcpyDeviceToHost, queue);
      else
        copy_box(to, box.pitch, between, box.width, box, cudaMemcpyHostToDevice, queue);
      between += box.bytes();
    }
  };
  each(out, true);
  if (!stays) check_cuda(cudaEventRecord(is_out[at(index)], out), "record an event");
  write_value(out, const_cast<std::uint32_t*>(word(c.from)),
              run * num(int_size(of[at(c.from)])) + place[at(index)] + 1);
  if (!stays) {
    check_cuda(cudaStreamWaitEvent(in, is_out[at(index)], 0), "wait for an event");
    each(in, false);
  }
  write_value(in, counter(c.to, c.arrived), run + 1);
}

void CopyEngines::send(int crossing, std::uint32_t run) {
  Impl& i = *impl_;
  const int from = i.device.crossings[at(crossing)].from;
  i.runs = run + 1;
  for (std::size_t& next = i.sent[at(from)]; next <= i.place[at(crossing)]; ++next)
    i.send(i.of[at(from)][next], run, true);
}

void CopyEngines::raise(int crossing, std::uint32_t run, void* queue) {
  const Crossing& c = impl_->device.crossings[at(crossing)];
  write_value(static_cast<cudaStream_t>(queue), impl_->counter(c.from, c.counter), (run + 1) * c.lanes);
}

void CopyEngines::enqueue(std::uint32_t run, void* queue, bool by_lanes) {
  Impl& i = *impl_;
  write_value(static_cast<cudaStream_t>(queue), const_cast<std::uint32_t*>(i.word(kMaxCudaRanks)), run + 1);
  i.runs = run + 1;
  for (int r = 0; r < int_size(i.segments) && !by_lanes; ++r) follow(copy_queues().out[r], queue);
  const auto sent = std::exchange(i.sent, {});
  for (const int index : i.order)
    if (i.place[at(index)] >= sent[at(i.device.crossings[at(index)].from)]) i.send(index, run, by_lanes);
  for (int r = 0; r < int_size(i.segments); ++r)
    for (const cudaStream_t copies : {copy_queues().out[r], copy_queues().in[r]}) {
      check_cuda(cudaEventRecord(i.joined, copies), "record an event");
      check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(queue), i.joined, 0), "wait for an event");
    }
}

void CopyEngines::limit(std::vector<std::vector<std::int32_t>> counts) { impl_->counts = std::move(counts); }

std::optional<CrossingFailure> CopyEngines::stuck(std::chrono::nanoseconds deadline) {
  Impl& i = *impl_;
  const auto now = Clock::now();
  for (int w = 0; w <= kMaxCudaRanks; ++w)
    if (const std::uint32_t value = *i.word(w); std::exchange(i.last[at(w)], value) != value) i.changed = now;
  if (now - i.changed < deadline) return {};
  for (int r = 0; r < int_size(i.segments); ++r) {
    const auto count = static_cast<std::uint32_t>(i.of[at(r)].size());
    if (static_cast<std::int32_t>(i.last[kMaxCudaRanks] * count - i.last[at(r)]) <= 0) continue;
    CrossingFailure out;
    out.index = i.of[at(r)][i.last[at(r)] % count];
    const Crossing& c = i.device.crossings[at(out.index)];
    out.started = i.last[at(r)] / count * c.lanes, out.waited_ns = num((now - i.changed).count());
    check_cuda(cudaMemcpyAsync(&out.seen, i.counter(r, c.counter), 4, cudaMemcpyDeviceToHost, copy_queues().aside),
               "read a counter");
    check_cuda(cudaStreamSynchronize(copy_queues().aside), "read a counter");
    return out;
  }
  return {};
}

void CopyEngines::release() {
  for (const Crossing& c : impl_->device.crossings)
    write_value(copy_queues().aside, impl_->counter(c.from, c.counter), impl_->runs * c.lanes);
}

namespace {

// What stands in a queue may still set a counter to the number of an earlier run, after it was released.
void end_released(CopyEngines& engines, void* queue) {
  do {
    engines.release();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  } while (cudaStreamQuery(static_cast<cudaStream_t>(queue)) == cudaErrorNotReady);
  check_cuda(cudaDeviceSynchronize(), "end what has failed");
}

}  // namespace

std::optional<CrossingFailure> await_copies(CopyEngines& engines, void* queue, std::chrono::nanoseconds deadline) {
  for (;;) {
    const cudaError_t status = cudaStreamQuery(static_cast<cudaStream_t>(queue));
    if (status != cudaErrorNotReady) {
      check_cuda(status, "run the kernel");
      return {};
    }
    if (auto stuck = engines.stuck(deadline)) {
      end_released(engines, queue);
      return stuck;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace weft
