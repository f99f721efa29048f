// What fused ops on a GPU are measured against beside cuBLASLt: sums of outputs that lie in rows in device memory, bags
// that are kept and then pulled, all ranks of one GPU in one launch; and random inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/device_lane.h"
#include "weft/transport/local/pace.h"

namespace weft {

// Near-normal bf16 numbers.
void fill_random(DeviceMemory& memory, std::uint32_t seed, void* queue);

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
  int blocks_;
  std::uint32_t epoch_ = 0;
};

// What bags are measured against: outputs that were kept (samples, cols of the rank), pulled by those who need them
// into rows that have the columns of all ranks side by side.
struct PullArguments {
  const float* kept[kMaxCudaRanks];
  float* outputs[kMaxCudaRanks];
  std::int32_t first_col[kMaxCudaRanks + 1];  // in an output; the last: how wide it is
  std::int32_t num_ranks, samples;            // of each output
};
void pull_bags(const PullArguments& arguments, void* queue);

void fill_random_f32(void* memory, std::int64_t count, std::uint32_t seed, void* queue);

}  // namespace weft
