// What a fused gemm on a GPU is measured against beside cuBLASLt: sums of outputs that lie in rows in device memory,
// all ranks of one GPU in one launch, and random inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cuda/device.h"
#include "weft/transport/local/pace.h"

namespace weft {

// Near-normal bf16 numbers.
void fill_random(DeviceMemory& memory, std::uint32_t seed);

enum class SumTo { owners, everybody };  // a reduce-scatter, an all-reduce

class DeviceReduceScatter {
 public:
  // Of partial[r] (m, n), m a multiple of the ranks, n of 8. Rank r keeps rows [r, r + 1) * m / N of the sum, or all.
  DeviceReduceScatter(std::vector<const void*> partial, std::int64_t m, std::int64_t n, SumTo to = SumTo::owners);
  // Every rank reads its rows of all: the fewest bytes where memory is shared.
  void direct();
  // Part by part to the next rank, over links that may be paced: what a collective library does. To owners only.
  void ring(double ns_per_byte = 0, double latency_ns = 0);
  const void* output(int rank) const { return outputs_[static_cast<std::size_t>(rank)].data(); }

 private:
  std::vector<const void*> partial_;
  std::int64_t m_, n_;
  SumTo to_;
  std::vector<DeviceMemory> outputs_, inboxes_, flags_, stamps_;
  DeviceMemory links_;
  std::uint32_t epoch_ = 0;
};

}  // namespace weft
