#include "weft/exec/cuda/device.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/kernel.h"

namespace weft {

namespace {

// What the driver reads when it starts. Modules that are loaded at their first launch, while a queue waits for a
// counter, wait for that queue; and so do queues that share a connection with it.
void prepare_driver() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

}  // namespace

void check_launch(cudaError_t status) { check_cuda(status, "launch the kernel"); }

std::int64_t free_device_bytes() {
  std::size_t free = 0, all = 0;
  check_cuda(cudaMemGetInfo(&free, &all), "ask how much memory is free");
  return static_cast<std::int64_t>(free);
}

int num_devices() {
  static const bool prepared = (prepare_driver(), true);
  (void)prepared;
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "ask which device is in use");
  return device;
}

UseDevice::UseDevice(int device) : before_(current_device()) {
  if (device != before_) check_cuda(cudaSetDevice(device), "use a device");
}

UseDevice::~UseDevice() { cudaSetDevice(before_); }

std::optional<DeviceFacts> device_facts() {
  if (num_devices() == 0) return {};
  cudaDeviceProp found;
  check_cuda(cudaGetDeviceProperties(&found, current_device()), "ask what the device is");
  DeviceFacts out;
  out.name = found.name;
  out.multiprocessors = found.multiProcessorCount;
  out.major = found.major, out.minor = found.minor;
  out.l2_bytes = found.l2CacheSize, out.memory_bytes = static_cast<std::int64_t>(found.totalGlobalMem);
  check_cuda(cudaDriverGetVersion(&out.driver), "ask for the driver's version");
  return out;
}

DeviceMemory::DeviceMemory(std::int64_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, static_cast<std::size_t>(bytes)), "allot memory on the device");
  data_ = static_cast<std::byte*>(data);
  fill(0);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);
}

void DeviceMemory::fill(unsigned char value) {
  check_cuda(cudaMemset(data_, value, static_cast<std::size_t>(bytes_)), "fill memory on the device");
}

void DeviceMemory::upload(const void* from, std::int64_t bytes) {
  if (bytes > bytes_) fail(Code::internal, "{} bytes do not fit into {} on the device", bytes, bytes_);
  check_cuda(cudaMemcpy(data_, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice), "copy to the device");
}

void DeviceMemory::clear_later(void* queue) {
  check_cuda(cudaMemsetAsync(data_, 0, static_cast<std::size_t>(bytes_), static_cast<cudaStream_t>(queue)),
             "clear memory on the device");
}

PinnedMemory::PinnedMemory(std::int64_t bytes) {
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocMapped), "allot pinned memory");
  std::memset(data, 0, static_cast<std::size_t>(bytes));
  data_ = static_cast<std::byte*>(data);
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

void copy_on_device(void* to, const void* from, std::int64_t bytes) {
  check_cuda(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice), "copy on the device");
}

void copy_later(void* to, const void* from, std::int64_t bytes, void* queue) {
  check_cuda(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, static_cast<cudaStream_t>(queue)),
      "copy to the device");
}

void download(const void* from, void* to, std::int64_t bytes) {
  check_cuda(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost), "copy from the device");
}

void* device_queue() {
  static const cudaStream_t queue = [] {
    cudaStream_t made = nullptr;
    check_cuda(cudaStreamCreate(&made), "make a queue");
    return made;
  }();
  return queue;
}

DeviceQueue::DeviceQueue(QueueKind kind) {
  cudaStream_t made = nullptr;
  const unsigned flags = kind == QueueKind::apart ? cudaStreamNonBlocking : cudaStreamDefault;
  check_cuda(cudaStreamCreateWithFlags(&made, flags), "make a queue");
  handle_ = made;
}

DeviceQueue::~DeviceQueue() { cudaStreamDestroy(static_cast<cudaStream_t>(handle_)); }

void check_aligned(const void* data, int bytes, const char* name) {
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<unsigned>(bytes) != 0)
    bad_input(
        "{} begins at no multiple of {} bytes, of which a GPU reads so many at a time; copy it to a tensor of its own",
        name, bytes);
}

bool is_recorded(void* queue) {
  cudaStreamCaptureStatus status{};
  check_cuda(cudaStreamIsCapturing(static_cast<cudaStream_t>(queue), &status), "ask whether a graph is recorded");
  return status != cudaStreamCaptureStatusNone;
}

bool has_ended(void* queue) {
  const cudaError_t status = cudaStreamQuery(static_cast<cudaStream_t>(queue));
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "run what was enqueued");
  return true;
}

void set_word(void* word, std::uint32_t value) {
  const DeviceQueue queue(QueueKind::apart);
  const auto stream = static_cast<cudaStream_t>(queue.handle());
  check_cuda(cudaMemcpyAsync(word, &value, sizeof(value), cudaMemcpyHostToDevice, stream), "set a word on the device");
  check_cuda(cudaStreamSynchronize(stream), "set a word on the device");
}

void follow(void* later, void* earlier) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
  check_cuda(cudaEventRecord(event, static_cast<cudaStream_t>(earlier)), "record an event");
  check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(later), event, 0), "wait for an event");
  check_cuda(cudaEventDestroy(event), "end an event");  // when nobody waits for it
}

DeviceGraph::DeviceGraph(const std::function<void()>& enqueue) {
  const auto queue = static_cast<cudaStream_t>(device_queue());
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal), "record a graph");
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(queue, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check_cuda(cudaStreamEndCapture(queue, &graph), "record a graph");
  cudaGraphExec_t made = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "make a graph");
  made_ = made;
}

DeviceGraph::~DeviceGraph() {
  if (made_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(made_));
}

void DeviceGraph::launch() {
  check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(made_), static_cast<cudaStream_t>(device_queue())),
             "launch a graph");
}

DeviceTimer::DeviceTimer() {
  for (void*& event : events_) {
    cudaEvent_t made = nullptr;
    check_cuda(cudaEventCreate(&made), "make an event");
    event = made;
  }
}

DeviceTimer::~DeviceTimer() {
  for (void* event : events_) cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

void DeviceTimer::begin(void* queue) {
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(events_[0]), static_cast<cudaStream_t>(queue)),
             "record an event");
}

void DeviceTimer::end(void* queue) {
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(events_[1]), static_cast<cudaStream_t>(queue)),
             "record an event");
}

double DeviceTimer::us() {
  const auto first = static_cast<cudaEvent_t>(events_[0]), last = static_cast<cudaEvent_t>(events_[1]);
  check_cuda(cudaEventSynchronize(last), "run what was enqueued");
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, first, last), "measure time");
  return ms * 1000.0;
}

}  // namespace weft
