// The virtual GPUs of this process: memory, queues of work, and the thread that does it. All devices have one thread
// and draw from one seed. Memory is of one file, so that other processes can map it.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/virtual_gpu/grid.h"

namespace virtual_gpu {

inline constexpr int kDevices = 4, kMultiprocessors = 16;
// What devices can do in each other's memory; for tests to say otherwise.
struct Peers {
  bool reach = true, add = true;
};
inline Peers peers;
inline std::atomic<std::size_t> most_bytes = SIZE_MAX;  // that may be allotted at a time; for tests to say otherwise
inline constexpr std::uint32_t kSharedBytes = 227 << 10;

// One thing in a queue: a kernel, or something that is done at once, when it may be.
struct Work {
  std::function<bool()> may;  // empty: at once
  std::function<void()> act;
  std::shared_ptr<const Launch> kernel;  // what to launch: copied for each run
  std::uint64_t number = 0;              // of all that was enqueued
  std::shared_ptr<Launch> running = {};
};

class Device {
 public:
  static Device& get();

  // All of these lock, and return an error where a kernel has failed.
  cudaError_t enqueue(cudaStream_t stream, Work work);
  cudaError_t await(cudaStream_t stream);  // all that is there now
  cudaError_t await_all();
  bool is_empty(cudaStream_t stream);
  cudaError_t status();
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  VirtualStream* make_stream(bool ordered, int device);
  void end_stream(VirtualStream* stream);
  VirtualStream* resolve(VirtualStream* stream);  // null: the default one

  void* allot(std::size_t bytes, int device);  // null: there is no room
  bool free(void* data);
  struct Block {
    std::size_t bytes;
    int device;
  };
  // The allotment that holds an address; first is its beginning.
  std::optional<std::pair<std::uintptr_t, Block>> block_of(const void* data);
  std::size_t free_bytes();
  int file() const { return file_; }
  std::size_t offset_of(const void* data) const;
  std::uint8_t* place(std::size_t offset) const { return arena_ + offset; }
  std::map<std::uintptr_t, std::size_t> pinned;  // under lock()

 private:
  Device();
  void run();
  bool start_work();
  bool advance(VirtualStream& stream);
  bool may_start(const VirtualStream& stream, const Work& work) const;
  void begin(Work& work, std::shared_ptr<Launch> before);
  bool begin_ctas(Launch& launch);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<VirtualStream>> streams_;
  std::vector<std::shared_ptr<Launch>> launches_;  // that run
  std::uint64_t enqueued_ = 0;
  int used_[kDevices] = {};  // halves of multiprocessors
  int file_ = -1;
  std::uint8_t* arena_ = nullptr;
  std::map<std::uintptr_t, Block> blocks_;
  std::size_t used_bytes_ = 0;
};

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> body);

}  // namespace virtual_gpu

struct VirtualGraph {
  std::vector<virtual_gpu::Work> works;
  std::vector<VirtualStream*> streams;  // that record into it
};

struct VirtualStream {
  bool ordered = true, is_default = false;  // ordered: with the default stream
  int device = 0;
  std::deque<virtual_gpu::Work> queue;
  std::shared_ptr<VirtualGraph> records;  // while it does
};

struct VirtualEvent {
  struct Record {
    bool reached = false;
    std::int64_t ns = 0;
  };
  std::shared_ptr<Record> latest = std::make_shared<Record>(Record{true, 0});
  std::shared_ptr<VirtualGraph> recorded_in;
};
