#include "weft/exec/cuda/ranks/peer_memory.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"

namespace weft {
namespace {

// Numbers of processes repeat between containers of one host.
const std::string& this_process() {
  static const std::string name = fmt::format("{:08x}{:08x}", std::random_device{}(), std::random_device{}());
  return name;
}

template <typename T>
std::string to_hex(const T& value) {
  std::string out;
  for (const std::byte b : std::as_bytes(std::span(&value, 1))) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

template <typename T>
T from_hex(std::string_view text) {
  T out{};
  if (text.size() != 2 * sizeof(T)) fail(Code::internal, "\"{}\" are not the digits of {} bytes", text, sizeof(T));
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); };
  const auto bytes = std::as_writable_bytes(std::span(&out, 1));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return out;
}

int device_of(const void* data) {
  cudaPointerAttributes found{};
  check_cuda(cudaPointerGetAttributes(&found, data), "ask where memory lies");
  return found.device;
}

// Counters are raised by several ranks at once: an addition in a peer's memory must be one step there, too.
void check_additions(int device, const std::string& name) {
  if (device == current_device()) return;
  int can = 0;
  check_cuda(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrNativeAtomicSupported, current_device(), device),
             "ask whether GPUs add in each other's memory");
  if (can == 0)
    bad_input("GPU {} cannot add in the memory of GPU {} ({}) in one step; use GPUs that NVLink joins",
              current_device(), device, name);
}

// Once for a pair of devices; a second time says so, and that is all right.
void reach(int device, const std::string& name) {
  if (device == current_device()) return;
  int can = 0;
  check_cuda(cudaDeviceCanAccessPeer(&can, current_device(), device), "ask whether GPUs reach each other");
  if (can == 0)
    bad_input("GPU {} cannot reach the memory of GPU {} ({}); use GPUs that NVLink or a PCIe switch joins",
              current_device(), device, name);
  const cudaError_t status = cudaDeviceEnablePeerAccess(device, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    (void)cudaGetLastError();
  else
    check_cuda(status, "let GPUs reach each other");
}

}  // namespace

GpuSite this_gpu() {
  const auto facts = device_facts();
  if (!facts) bad_input("there is no GPU here; run the plan on the CPU");
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, current_device()), "ask what the device is");
  int mps = 0;
  check_cuda(cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, current_device()), "ask whether MPS is on");
  return {this_process(), to_hex(device.uuid), facts->name, facts->multiprocessors, mps != 0};
}

std::string offer_memory(const void* data) {
  cudaIpcMemHandle_t handle{};
  check_cuda(cudaIpcGetMemHandle(&handle, const_cast<void*>(data)), "offer memory to other processes");
  return to_hex(data) + " " + to_hex(handle);
}

PeerMemory::PeerMemory(const GpuSite& owner, std::string_view offer) {
  const std::size_t space = offer.find(' ');
  if (owner.process == this_process()) {
    data_ = from_hex<std::byte*>(offer.substr(0, space));
    reach(device_of(data_), owner.name);
    check_additions(device_of(data_), owner.name);
    return;
  }
  void* data = nullptr;
  const auto handle = from_hex<cudaIpcMemHandle_t>(offer.substr(space + 1));
  const cudaError_t status = cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess);
  if (status == cudaErrorPeerAccessUnsupported || status == cudaErrorInvalidDevice) {
    (void)cudaGetLastError();
    bad_input(
        "this rank's GPU cannot reach the memory of another rank's {}; use GPUs that NVLink or a PCIe switch joins, "
        "all of them visible to every process",
        owner.name);
  }
  check_cuda(status, "open another process's memory");
  data_ = static_cast<std::byte*>(data), opened_ = true;
  check_additions(device_of(data_), owner.name);
}

PeerMemory::PeerMemory(PeerMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), opened_(std::exchange(other.opened_, false)) {}

PeerMemory& PeerMemory::operator=(PeerMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(opened_, other.opened_);
  return *this;
}

PeerMemory::~PeerMemory() {
  if (opened_) cudaIpcCloseMemHandle(data_);
}

}  // namespace weft
