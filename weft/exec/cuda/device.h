// A GPU as the rest of Weft sees it, without CUDA's headers: what it is, memory on it, and time measured by it. Every
// failed call of CUDA becomes an Error that names the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft {

struct DeviceFacts {
  std::string name;
  int multiprocessors = 0;
  int major = 0, minor = 0;  // compute capability
  int driver = 0;            // as CUDA counts: 13000
  std::int64_t l2_bytes = 0, memory_bytes = 0;
};

// Of the calling thread's device; none where there is no GPU, or no driver.
std::optional<DeviceFacts> device_facts();

std::int64_t free_device_bytes();

int num_devices();     // 0: there is no GPU, or no driver
int current_device();  // of the calling thread: 0, unless somebody has chosen another

// While it lives, the calling thread's device is this one.
class UseDevice {
 public:
  explicit UseDevice(int device);
  ~UseDevice();
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  int before_;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::int64_t bytes);  // zeroed; throws no_memory
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  void fill(unsigned char value);
  void upload(const void* from, std::int64_t bytes);  // to its beginning
  void clear_later(void* queue);                      // enqueues it

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Memory of the host that the device reads and writes.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::int64_t bytes);  // zeroed; throws no_memory
  PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedMemory();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

template <typename T>
DeviceMemory on_device(const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  DeviceMemory out(bytes > 0 ? bytes : 1);
  out.upload(values.data(), bytes);
  return out;
}
void copy_on_device(void* to, const void* from, std::int64_t bytes);
// Enqueues a copy to the device, of memory there or of the host's, which may change once this has returned.
void copy_later(void* to, const void* from, std::int64_t bytes, void* queue);
// After all that was enqueued, but in queues `apart`.
void download(const void* from, void* to, std::int64_t bytes);
template <typename T>
std::vector<T> from_device(const void* from, std::size_t count) {
  std::vector<T> out(count);
  download(from, out.data(), static_cast<std::int64_t>(count * sizeof(T)));
  return out;
}

// The queue in which all work of Weft on the GPU stands, a cudaStream_t. It and the default stream wait for each other.
void* device_queue();

// Another one; `apart`: that does not wait for the default stream, nor that for it.
enum class QueueKind { ordered, apart };
class DeviceQueue {
 public:
  explicit DeviceQueue(QueueKind kind = QueueKind::ordered);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

// Throws bad_input where data begin at no multiple of so many bytes.
void check_aligned(const void* data, int bytes, const char* name);

bool is_recorded(void* queue);  // whether what is enqueued there becomes part of a graph
bool has_ended(void* queue);    // all that was enqueued there
// Sets a word of device memory now, whatever kernels run.
void set_word(void* word, std::uint32_t value);

// What is enqueued in `later` from now on waits for what is in `earlier` now.
void follow(void* later, void* earlier);

// Work that is enqueued once, while this is made, and then again at every launch: without the host's part of it.
// Arguments are those of the first time.
class DeviceGraph {
 public:
  explicit DeviceGraph(const std::function<void()>& enqueue);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  void launch();

 private:
  void* made_ = nullptr;
};

// Time between two moments of a queue.
class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  void begin(void* queue = device_queue());
  void end(void* queue = device_queue());
  double us();  // waits for the end
  double end_us() {
    end();
    return us();
  }

 private:
  void* events_[2];
};

}  // namespace weft
