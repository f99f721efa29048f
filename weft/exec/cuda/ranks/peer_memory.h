// Device memory of other ranks in this process's addresses: of the same process as it is, of another one by CUDA IPC,
// of another GPU of the host by peer access. Ranks exchange what these functions give (Transport::all_gather). No CUDA
// header is needed here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

// Where a rank computes.
struct GpuSite {
  std::string process;  // the same for ranks of one process
  std::string gpu;      // the same for ranks that share one
  std::string name;     // "NVIDIA H200"
  int multiprocessors = 0;
  bool mps = false;  // kernels of several processes run there at once
};
GpuSite this_gpu();  // the calling thread's; bad_input where there is none

// What others need to reach memory that cudaMalloc gave.
std::string offer_memory(const void* data);

// Memory of another rank, as long as this lives. Throws bad_input where the calling thread's GPU cannot reach it.
class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(const GpuSite& owner, std::string_view offer);
  PeerMemory(PeerMemory&& other) noexcept;
  PeerMemory& operator=(PeerMemory&& other) noexcept;
  ~PeerMemory();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  bool opened_ = false;  // from another process
};

}  // namespace weft
