#include "tests/virtual_gpu/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) ((void)(data), (void)(bytes))
#endif

namespace virtual_gpu {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{8} << 30, kAlignment = 2 << 20, kSmallAlignment = 1024, kEdge = 1024;
constexpr std::uint8_t kEdgeByte = 0xE5;  // behind every allotment, where nobody may write
constexpr int kTurn = 256;                // steps between looks at the queues
constexpr int kLooksBeforeSleep = 2000;

void fill_edge(std::uintptr_t end) {
  auto* edge = reinterpret_cast<std::uint8_t*>(end);
  std::memset(edge, kEdgeByte, kEdge);
  ASAN_POISON_MEMORY_REGION(edge, kEdge);
}

bool edge_is_whole(std::uintptr_t end) {
  auto* edge = reinterpret_cast<std::uint8_t*>(end);
  ASAN_UNPOISON_MEMORY_REGION(edge, kEdge);
  return std::all_of(edge, edge + kEdge, [](std::uint8_t byte) { return byte == kEdgeByte; });
}

}  // namespace

Device& Device::get() {
  static Device& one = *new Device;
  return one;
}

Device::Device() {
  file_ = memfd_create("virtual_gpu", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(kArenaBytes)) != 0) std::abort();
  void* data = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (data == MAP_FAILED) std::abort();
  arena_ = static_cast<std::uint8_t*>(data);
  make_stream(true, 0)->is_default = true;
  std::thread([this] { run(); }).detach();
}

VirtualStream* Device::make_stream(bool ordered, int device) {
  const auto held = lock();
  streams_.push_back(std::make_unique<VirtualStream>());
  streams_.back()->ordered = ordered, streams_.back()->device = device;
  return streams_.back().get();
}

VirtualStream* Device::resolve(VirtualStream* stream) {
  if (stream == nullptr) return streams_[0].get();
  if (std::none_of(streams_.begin(), streams_.end(), [&](const auto& one) { return one.get() == stream; })) {
    grid().report("a queue is used after it was destroyed");
    return streams_[0].get();
  }
  return stream;
}

// What it still has to do is done.
void Device::end_stream(VirtualStream* stream) {
  auto held = lock();
  changed_.wait(held, [&] { return stream->queue.empty(); });
  std::erase_if(streams_, [&](const auto& one) { return one.get() == stream; });
}

cudaError_t Device::status() { return grid().failed ? cudaErrorLaunchFailure : cudaSuccess; }

cudaError_t Device::enqueue(cudaStream_t stream, Work work) {
  const auto held = lock();
  VirtualStream& to = *resolve(stream);
  if (to.records != nullptr) {
    to.records->works.push_back(std::move(work));
    return cudaSuccess;
  }
  work.number = ++enqueued_;
  to.queue.push_back(std::move(work));
  changed_.notify_all();
  return status();
}

bool Device::is_empty(cudaStream_t stream) {
  const auto held = lock();
  return resolve(stream)->queue.empty();
}

cudaError_t Device::await(cudaStream_t stream) {
  auto held = lock();
  VirtualStream& of = *resolve(stream);
  const std::uint64_t last = of.queue.empty() ? 0 : of.queue.back().number;
  changed_.wait(held, [&] { return of.queue.empty() || of.queue.front().number > last; });
  return status();
}

cudaError_t Device::await_all() {
  auto held = lock();
  const std::uint64_t last = enqueued_;
  changed_.wait(held, [&] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [&](const auto& one) { return one->queue.empty() || one->queue.front().number > last; });
  });
  return status();
}

// What is in the default stream comes after all that was enqueued before in ordered ones, and before what comes later.
bool Device::may_start(const VirtualStream& stream, const Work& work) const {
  for (const auto& other : streams_) {
    if (other.get() == &stream || other->queue.empty() || other->queue.front().number > work.number) continue;
    if (stream.is_default ? other->ordered : stream.ordered && other->is_default) return false;
  }
  return true;
}

bool Device::begin_ctas(Launch& launch) {
  bool any = false;
  int& used = used_[launch.device];
  const int left = launch.ctas_wanted - static_cast<int>(launch.ctas.size());
  if (launch.cooperative && used + left * launch.units() > 2 * kMultiprocessors) return false;
  // Two at a time: they may be a cluster.
  for (int together = 2; static_cast<int>(launch.ctas.size()) < launch.ctas_wanted; any = true) {
    together = std::min(2, launch.ctas_wanted - static_cast<int>(launch.ctas.size()));
    if (used + together * launch.units() > 2 * kMultiprocessors) break;
    used += together * launch.units();
    for (int i = 0; i < together; ++i) grid().begin_cta(launch);
  }
  return any;
}

void Device::begin(Work& work, std::shared_ptr<Launch> before) {
  work.running = std::make_shared<Launch>();
  Launch& launch = *work.running;
  const Launch& wanted = *work.kernel;
  launch.body = wanted.body, launch.ctas_wanted = wanted.ctas_wanted, launch.threads = wanted.threads;
  launch.shared_bytes = wanted.shared_bytes, launch.device = wanted.device;
  launch.cooperative = wanted.cooperative, launch.dependent = wanted.dependent;
  launch.before = std::move(before);
  launches_.push_back(work.running);
  begin_ctas(launch);
}

bool Device::advance(VirtualStream& stream) {
  bool any = false;
  while (!stream.queue.empty()) {
    Work& work = stream.queue.front();
    if (work.running != nullptr) {
      if (work.running->done()) {
        stream.queue.pop_front();
        any = true;
        continue;
      }
      Work* next = stream.queue.size() > 1 ? &stream.queue[1] : nullptr;
      if (next != nullptr && next->kernel != nullptr && next->kernel->dependent && next->running == nullptr &&
          work.running->lets_next_begin()) {
        begin(*next, work.running);
        any = true;
      }
      break;
    }
    if (!may_start(stream, work) || (work.may && !work.may())) break;
    any = true;
    if (work.kernel != nullptr) {
      begin(work, nullptr);
      break;
    }
    work.act();
    stream.queue.pop_front();
  }
  return any;
}

bool Device::start_work() {
  bool any = false;
  for (std::size_t i = 0; i < launches_.size();) {
    Launch& launch = *launches_[i];
    used_[launch.device] -= (launch.ended - std::exchange(launch.made_room, launch.ended)) * launch.units();
    if (launch.done()) {
      launch.before = nullptr;
      launches_.erase(launches_.begin() + static_cast<std::ptrdiff_t>(i));
      any = true;
      continue;
    }
    any = begin_ctas(launch) || any;
    ++i;
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) any = advance(*streams_[i]) || any;
  return any;
}

void Device::run() {
  int looked = 0;
  for (;;) {
    {
      auto held = lock();
      if (start_work()) {
        changed_.notify_all();
        looked = 0;
      }
      if (grid().fibers.empty() && grid().bulk.empty()) changed_.wait_for(held, std::chrono::microseconds(200));
    }
    for (int i = 0; i < kTurn && !grid().fibers.empty(); ++i) {
      looked = grid().step() ? 0 : looked + 1;
      if (looked > kLooksBeforeSleep) {  // for something that this thread does not do
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        looked = kLooksBeforeSleep - 200;
        break;
      }
    }
  }
}

// Memory: the first gap that is large enough.
void* Device::allot(std::size_t bytes, int device) {
  const auto held = lock();
  const std::size_t alignment = bytes >= kAlignment ? kAlignment : kSmallAlignment;
  const auto begin = reinterpret_cast<std::uintptr_t>(arena_);
  std::uintptr_t place = begin;
  for (const auto& [at, block] : blocks_) {
    if (place + bytes + kEdge <= at) break;
    place = (at + block.bytes + kEdge + alignment - 1) / alignment * alignment;
  }
  if (place + bytes + kEdge > begin + kArenaBytes || used_bytes_ + bytes > most_bytes) return nullptr;
  blocks_[place] = {bytes, device};
  used_bytes_ += bytes;
  fill_edge(place + bytes);
  std::memset(reinterpret_cast<void*>(place), 0x7F, bytes);  // what nobody has written is no number
  return reinterpret_cast<void*>(place);
}

bool Device::free(void* data) {
  const auto held = lock();
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == blocks_.end()) return false;
  if (!edge_is_whole(found->first + found->second.bytes))
    grid().report("something was written behind the end of memory that was allotted");
  used_bytes_ -= found->second.bytes;
  if (found->second.bytes >= kAlignment) madvise(data, found->second.bytes / 4096 * 4096, MADV_REMOVE);
  blocks_.erase(found);
  return true;
}

std::optional<std::pair<std::uintptr_t, Device::Block>> Device::block_of(const void* data) {
  const auto held = lock();
  auto next = blocks_.upper_bound(reinterpret_cast<std::uintptr_t>(data));
  if (next == blocks_.begin()) return {};
  --next;
  if (reinterpret_cast<std::uintptr_t>(data) >= next->first + next->second.bytes) return {};
  return *next;
}

std::size_t Device::free_bytes() {
  const auto held = lock();
  return kArenaBytes - used_bytes_;
}

std::size_t Device::offset_of(const void* data) const {
  return static_cast<std::size_t>(static_cast<const std::uint8_t*>(data) - arena_);
}

}  // namespace virtual_gpu
