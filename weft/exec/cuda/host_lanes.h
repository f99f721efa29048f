// The slow twin of the kernel: walks the same tables, in the same order, on the host. It is told how many clusters
// share the lanes of a rank, as the kernel is, and does the pairs of each one after the other, so that it gets stuck
// where clusters would. Counters only grow and waits are thresholds: if one order of what is ready ends, every order
// does. Where ranks share no memory it makes their crossings too, each as soon as its lanes have been done.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/exec/bindings.h"
#include "weft/exec/cuda/lane_table.h"

namespace weft {

// One rank's inputs: x (m, k) and w (k, n) or (n, k), both bf16, or of a copy x (m, n) as y is; bias (n) and residual
// (as y).
struct HostOperands {
  const void* x = nullptr;
  const bf16* w = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;
};

class HostLanes {
 public:
  // Keeps references to both.
  HostLanes(const Plan& plan, const DevicePlan& device, int clusters_per_rank);

  // One run of all ranks. Without operands only counters move. Returns what waits, or nothing where all was done.
  std::string run(std::span<const HostOperands> operands = {}, std::span<const Counts> counts = {});

  std::vector<float> output(int rank) const;
  const std::vector<std::uint32_t>& counters(int rank) const { return ranks_[at(rank)].counters; }
  // In the order in which they could be made in the last run.
  const std::vector<int>& crossed() const { return crossed_; }

 private:
  struct Rank {
    std::vector<std::uint32_t> counters;
    std::vector<bf16> images;                 // of all packed buffers, each image in rows; of f32 the halves
    std::vector<std::vector<bf16>> matrices;  // in rows; 0, which is x, is the caller's
    std::vector<std::size_t> next;            // pair of each cluster
    std::vector<char> done;                   // per lane, then per trigger
    std::vector<std::int32_t> ended;          // parts of each trigger that is cut
  };

  bool met(int rank, const DeviceLane& lane) const;
  bool advance(int rank, int cluster);
  void do_lane(int rank, const DeviceLane& lane);
  bool cross();
  bf16* memory_at(int rank, std::int64_t offset);  // of its segment
  int live_rows(int rank, const DeviceLane& lane) const;
  std::vector<float> values_of(int rank, const DeviceLane& lane) const;
  std::vector<float> product(int rank, const DeviceLane& lane) const;
  void finish(int rank, const DeviceLane& lane, std::vector<float>* values) const;
  std::int64_t cols_of(const DeviceLane& lane) const;  // of the plan
  // Number i of those that begin there, in the type of sums.
  float value_at(const bf16* first, std::int64_t i) const;
  void set_value(bf16* first, std::int64_t i, float value) const;
  // The first column of a place, and the distance to its next row.
  struct Rows {
    const bf16* first;
    std::int64_t ld;
  };
  Rows rows_of(const DevicePlace& place) const;

  const Plan& plan_;
  const DevicePlan& device_;
  std::size_t clusters_;
  std::vector<Rank> ranks_;
  std::span<const HostOperands> operands_;
  std::vector<std::vector<std::int32_t>> counts_;  // of each rank; empty: all rows
  std::vector<int> crossed_;
  std::vector<char> has_crossed_;
  std::uint32_t runs_ = 0;
};

// Throws internal where the tables get stuck within two runs.
void require_ending(const Plan& plan, const DevicePlan& device, int clusters_per_rank);

}  // namespace weft
