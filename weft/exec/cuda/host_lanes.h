// The slow twin of the kernel: walks the same tables, in the same order, on the host. It is told how many clusters
// share the lanes of a rank, as the kernel is, and does the pairs of each one after the other, so that it gets stuck
// where clusters would. Counters only grow and waits are thresholds: if one order of what is ready ends, every order
// does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/exec/cuda/lane_table.h"

namespace weft {

// One rank's inputs: x (m, k) and w (k, n) or (n, k), both bf16.
struct HostOperands {
  const bf16* x = nullptr;
  const bf16* w = nullptr;
};

class HostLanes {
 public:
  // Keeps references to both.
  HostLanes(const Plan& plan, const DevicePlan& device, int clusters_per_rank);

  // One run of all ranks. Without operands only counters move. Returns what waits, or nothing where all was done.
  std::string run(std::span<const HostOperands> operands = {});

  const std::vector<bf16>& output(int rank) const { return ranks_[at(rank)].output; }  // (rows, columns) of y
  const std::vector<std::uint32_t>& counters(int rank) const { return ranks_[at(rank)].counters; }

 private:
  struct Rank {
    std::vector<std::uint32_t> counters;
    std::vector<bf16> images;  // of all packed buffers, each image in rows
    std::vector<bf16> output;
    std::vector<std::size_t> next;  // pair of each cluster
    std::vector<char> done;         // per lane, then per trigger
  };

  bool met(int rank, const DeviceLane& lane) const;
  bool advance(int rank, int cluster);
  void do_lane(int rank, const DeviceLane& lane, bool makes);
  void store(const DevicePlace& place, const DeviceLane& lane, std::span<const float> values);
  bf16* image(const DevicePlace& place) { return ranks_[at(place.rank)].images.data() + place.offset / 2; }

  const Plan& plan_;
  const DevicePlan& device_;
  std::size_t clusters_;
  std::vector<Rank> ranks_;
  std::span<const HostOperands> operands_;
  std::uint32_t runs_ = 0;
};

// Throws internal where the tables get stuck within two runs.
void require_ending(const Plan& plan, const DevicePlan& device, int clusters_per_rank);

}  // namespace weft
