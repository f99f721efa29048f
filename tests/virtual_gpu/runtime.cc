// CUDA's calls on virtual GPUs.
#include <cuda.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/virtual_gpu/device.h"
#include "tests/virtual_gpu/tensor_map.h"

using virtual_gpu::Device;
using virtual_gpu::Launch;
using virtual_gpu::Work;

namespace {

thread_local int this_device = 0;
thread_local int recordings = 0;  // that this thread has begun

Device& device() { return Device::get(); }

// Calls that wait for the GPU, or may, break a recording of the same thread.
cudaError_t refuse_while_recording() { return recordings > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess; }

cudaError_t do_now(Work work) {
  if (const cudaError_t error = refuse_while_recording()) return error;
  if (const cudaError_t error = device().enqueue(nullptr, std::move(work))) return error;
  return device().await(nullptr);
}

bool is_pageable(const void* data) {
  if (device().block_of(data)) return false;
  const auto held = device().lock();
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  auto next = device().pinned.upper_bound(at);
  return next == device().pinned.begin() || at >= (--next)->first + next->second;
}

bool records(cudaStream_t stream) {
  const auto held = device().lock();
  return device().resolve(stream)->records != nullptr;
}

// Rows of memory. What is read of the host's is taken at once, unless it is pinned or the copy is recorded.
cudaError_t copy_rows(std::uint8_t* to, std::size_t to_pitch, const std::uint8_t* from, std::size_t from_pitch,
                      std::size_t width, std::size_t height, cudaStream_t stream) {
  const bool recorded = records(stream);
  if (!recorded && is_pageable(from) && !device().block_of(to)) return cudaErrorInvalidValue;
  if (!recorded && is_pageable(from)) {
    std::vector<std::uint8_t> taken(width * height);
    for (std::size_t row = 0; row < height; ++row) std::memcpy(&taken[row * width], from + row * from_pitch, width);
    return device().enqueue(stream, {.act = [=, taken = std::move(taken)] {
                              for (std::size_t row = 0; row < height; ++row)
                                std::memcpy(to + row * to_pitch, &taken[row * width], width);
                            }});
  }
  const cudaError_t error = device().enqueue(stream, {.act = [=] {
                                               for (std::size_t row = 0; row < height; ++row)
                                                 std::memcpy(to + row * to_pitch, from + row * from_pitch, width);
                                             }});
  if (error != cudaSuccess || recorded || !is_pageable(to)) return error;
  return device().await(stream);
}

struct Offer {
  pid_t process;
  int file, device;
  std::size_t offset, bytes;
};
struct Opened {
  std::size_t bytes;
  int device;
};
std::unordered_map<void*, Opened>& opened() {  // under the device's lock
  static auto& one = *new std::unordered_map<void*, Opened>;
  return one;
}

}  // namespace

namespace virtual_gpu {

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> body) {
  auto made = std::make_shared<Launch>();
  made->body = std::move(body);
  made->ctas_wanted = static_cast<int>(config.gridDim.x), made->threads = static_cast<int>(config.blockDim.x);
  made->shared_bytes = static_cast<std::uint32_t>(config.dynamicSmemBytes);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& one = config.attrs[i];
    if (one.id == cudaLaunchAttributeCooperative) made->cooperative = one.val.cooperative != 0;
    if (one.id == cudaLaunchAttributeProgrammaticStreamSerialization)
      made->dependent = one.val.programmaticStreamSerializationAllowed != 0;
  }
  {
    const auto held = Device::get().lock();
    made->device = Device::get().resolve(config.stream)->device;
  }
  if (made->device != this_device) return cudaErrorInvalidResourceHandle;
  if (made->shared_bytes > kSharedBytes || made->threads % 32 != 0) return cudaErrorInvalidValue;
  if (made->cooperative && made->ctas_wanted * made->units() > 2 * kMultiprocessors)
    return cudaErrorCooperativeLaunchTooLarge;
  return Device::get().enqueue(config.stream, {.kernel = std::move(made)});
}

}  // namespace virtual_gpu

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorLaunchFailure) return virtual_gpu::grid().fault.c_str();
  static thread_local std::string text;
  return (text = "error " + std::to_string(static_cast<int>(error))).c_str();
}

// Devices.

cudaError_t cudaGetDeviceCount(int* count) { return *count = virtual_gpu::kDevices, cudaSuccess; }
cudaError_t cudaGetDevice(int* which) { return *which = this_device, cudaSuccess; }
cudaError_t cudaSetDevice(int which) {
  if (which < 0 || which >= virtual_gpu::kDevices) return cudaErrorInvalidDevice;
  return this_device = which, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int which) {
  *to = {};
  std::snprintf(to->name, sizeof(to->name), "virtual Hopper");
  to->uuid.bytes[0] = static_cast<char>('a' + which);
  to->totalGlobalMem = std::size_t{8} << 30;
  to->multiProcessorCount = virtual_gpu::kMultiprocessors, to->major = 9, to->l2CacheSize = 1 << 20;
  return cudaSuccess;
}
// Processes share a device, as under MPS, unless VIRTUAL_GPU_MPS is 0.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  const char* mps = std::getenv("VIRTUAL_GPU_MPS");
  *value = which == cudaDevAttrMpsEnabled ? mps == nullptr || std::string(mps) != "0"
                                          : static_cast<int>(virtual_gpu::kSharedBytes);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = refuse_while_recording()) return error;
  return device().await_all();
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = virtual_gpu::peers.reach, cudaSuccess; }
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
  return *value = virtual_gpu::peers.add, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  static std::atomic<unsigned> enabled;
  const unsigned bit = 1u << (this_device * virtual_gpu::kDevices + peer);
  return (enabled.fetch_or(bit) & bit) != 0 ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

// Memory. To free some waits for all that runs, as on a real GPU.

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (const cudaError_t error = refuse_while_recording()) return error;
  *data = device().allot(bytes, this_device);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  if (const cudaError_t error = refuse_while_recording()) return error;
  device().await_all();
  return device().free(data) ? device().status() : cudaErrorInvalidValue;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::malloc(bytes);
  const auto held = device().lock();
  device().pinned[reinterpret_cast<std::uintptr_t>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  const auto held = device().lock();
  device().pinned.erase(reinterpret_cast<std::uintptr_t>(data));
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = device().free_bytes(), *all = std::size_t{8} << 30;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {  // does not wait for the end of it
  if (const cudaError_t error = refuse_while_recording()) return error;
  return device().enqueue(nullptr, {.act = [=] { std::memset(data, value, bytes); }});
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return device().enqueue(stream, {.act = [=] { std::memset(data, value, bytes); }});
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return do_now({.act = [=] { std::memcpy(to, from, bytes); }});
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copy_rows(static_cast<std::uint8_t*>(to), bytes, static_cast<const std::uint8_t*>(from), bytes, bytes, 1,
                   stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return copy_rows(static_cast<std::uint8_t*>(to), to_pitch, static_cast<const std::uint8_t*>(from), from_pitch, width,
                   height, stream);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void* data) {
  const auto found = device().block_of(data);
  const auto held = device().lock();
  const auto other = opened().find(const_cast<void*>(data));
  to->device = found ? found->second.device : other != opened().end() ? other->second.device : -1;
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  const auto found = device().block_of(data);
  if (!found || found->first != reinterpret_cast<std::uintptr_t>(data)) return cudaErrorInvalidValue;
  const Offer offer{getpid(), device().file(), found->second.device, device().offset_of(data), found->second.bytes};
  *handle = {};
  std::memcpy(handle, &offer, sizeof(offer));
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned) {
  Offer offer{};
  std::memcpy(&offer, &handle, sizeof(offer));
  const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorInvalidValue;
  const std::size_t begin = offer.offset / 4096 * 4096, bytes = offer.offset - begin + offer.bytes;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(begin));
  close(file);
  if (mapped == MAP_FAILED) return cudaErrorMemoryAllocation;
  *data = static_cast<std::uint8_t*>(mapped) + (offer.offset - begin);
  const auto held = device().lock();
  opened()[*data] = {bytes, offer.device};
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* data) {
  device().await_all();
  const auto held = device().lock();
  const auto found = opened().find(data);
  if (found == opened().end()) return cudaErrorInvalidValue;
  munmap(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(data) / 4096 * 4096), found->second.bytes);
  opened().erase(found);
  return cudaSuccess;
}

// Streams.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return *stream = device().make_stream(flags != cudaStreamNonBlocking, this_device), cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return device().end_stream(stream), cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = device().status()) return error;
  return device().is_empty(stream) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = refuse_while_recording()) return error;
  return device().await(stream);
}

// A wait for something that is recorded makes the queue record, too; one that records waits for nothing else.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::shared_ptr<VirtualEvent::Record> record;
  {
    const auto held = device().lock();
    VirtualStream& of = *device().resolve(stream);
    if (event->recorded_in != nullptr) {
      if (of.records == nullptr) {
        of.records = event->recorded_in;
        of.records->streams.push_back(&of);
      }
      return of.records == event->recorded_in ? cudaSuccess : cudaErrorStreamCaptureIsolation;
    }
    if (of.records != nullptr) return cudaErrorStreamCaptureIsolation;
    record = event->latest;
  }
  return device().enqueue(stream, {.may = [record] { return record->reached; }, .act = [] {}});
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const auto held = device().lock();
  stream->records = std::make_shared<VirtualGraph>();
  stream->records->streams = {stream};
  ++recordings;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto held = device().lock();
  --recordings;
  const auto made = stream->records;
  for (VirtualStream* one : made->streams) one->records = nullptr;
  *graph = new VirtualGraph{made->works, {}};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = records(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

// What somebody waits for is a record of an event, which outlives it.

cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new VirtualEvent, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto record = std::make_shared<VirtualEvent::Record>();
  {
    const auto held = device().lock();
    event->recorded_in = device().resolve(stream)->records;
    if (event->recorded_in != nullptr) return cudaSuccess;
    event->latest = record;
  }
  return device().enqueue(stream, {.act = [record] {
                            record->reached = true;
                            record->ns = std::chrono::steady_clock::now().time_since_epoch().count();
                          }});
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  for (;; usleep(100)) {
    const auto held = device().lock();
    if (event->latest->reached) return device().status();
  }
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t last) {
  return *ms = static_cast<float>(last->latest->ns - first->latest->ns) * 1e-6f, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return *made = new VirtualGraph(*graph), cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  for (const Work& work : graph->works)
    if (const cudaError_t error = device().enqueue(stream, work)) return error;
  return cudaSuccess;
}

// Kernels.

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return value > static_cast<int>(virtual_gpu::kSharedBytes) ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* to, const void*) {
  return to->sharedSizeBytes = 40 << 10, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  return *clusters = virtual_gpu::kMultiprocessors / 2, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
  return *blocks = 2, cudaSuccess;
}

// The driver.

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* data, const cuuint64_t* sizes,
                                const cuuint64_t* pitches, const cuuint32_t* box, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0 || pitches[0] % 16 != 0 || sizes[0] == 0 || sizes[1] == 0)
    return CUDA_ERROR_INVALID_VALUE;
  virtual_gpu::TensorMap made;
  made.data = static_cast<std::uint8_t*>(data);
  made.cols = static_cast<std::int64_t>(sizes[0]), made.rows = static_cast<std::int64_t>(sizes[1]);
  made.pitch = static_cast<std::int64_t>(pitches[0]);
  made.box_cols = static_cast<std::int32_t>(box[0]), made.box_rows = static_cast<std::int32_t>(box[1]);
  *map = {};
  std::memcpy(map, &made, sizeof(made));
  return CUDA_SUCCESS;
}

namespace {

CUresult as_result(cudaError_t error) { return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

}  // namespace

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned) {
  const auto reached = [word, value] {
    const std::uint32_t seen = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
    return static_cast<std::int32_t>(seen - value) >= 0;
  };
  return as_result(device().enqueue(stream, {.may = reached, .act = [] {}}));
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned) {
  return as_result(device().enqueue(
      stream, {.act = [word, value] {
        std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word)).store(value, std::memory_order_release);
      }}));
}

// Pages are allotted like other memory, and mapped again from its file.
CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  return *bytes = 2 << 20, CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* made, std::size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {
  void* data = device().allot(bytes, this_device);
  if (data == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  return *made = device().offset_of(data), CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }  // lives as long as the process
CUresult cuMemAddressReserve(CUdeviceptr* first, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  void* data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  return *first = reinterpret_cast<CUdeviceptr>(data), CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr first, std::size_t bytes) {
  return munmap(reinterpret_cast<void*>(first), bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemMap(CUdeviceptr to, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  const void* mapped = mmap(reinterpret_cast<void*>(to), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, device().file(),
                            static_cast<off_t>(handle + offset));
  return mapped == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr, std::size_t) { return CUDA_SUCCESS; }
CUresult cuMemSetAccess(CUdeviceptr first, std::size_t bytes, const CUmemAccessDesc*, std::size_t) {
  return mprotect(reinterpret_cast<void*>(first), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                      : CUDA_ERROR_INVALID_VALUE;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::unordered_map<std::string, void*> all = {
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(&cuTensorMapEncodeTiled)},
      {"cuStreamWaitValue32", reinterpret_cast<void*>(&cuStreamWaitValue32)},
      {"cuStreamWriteValue32", reinterpret_cast<void*>(&cuStreamWriteValue32)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&cuMemGetAllocationGranularity)},
      {"cuMemCreate", reinterpret_cast<void*>(&cuMemCreate)},
      {"cuMemRelease", reinterpret_cast<void*>(&cuMemRelease)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(&cuMemAddressReserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&cuMemAddressFree)},
      {"cuMemMap", reinterpret_cast<void*>(&cuMemMap)},
      {"cuMemUnmap", reinterpret_cast<void*>(&cuMemUnmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&cuMemSetAccess)}};
  const auto at = all.find(name);
  *found = at == all.end() ? nullptr : at->second;
  return *result = cudaDriverEntryPointSuccess, cudaSuccess;
}
