// The reference executor: all ranks in one thread, naive kernels, every lane waited for and done whole. Slow and
// obvious; the others are tested against it. It shares no code with the CPU executor but the plan's expansion.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/plan/plan.h"

namespace weft {

class RefExecutor {
 public:
  // `seed` permutes the order in which ready lanes run; 0: rank by rank.
  explicit RefExecutor(const Plan& plan, std::uint64_t seed = 0);
  ~RefExecutor();

  // One run of all ranks: bindings[r] and counts[r] are those of rank r; counts may be empty.
  // Throws internal where the plan gets stuck, naming an action that waits.
  void run(std::span<const Bindings> bindings, std::span<const Counts> counts = {});

  // The whole buffer of a rank after the last run, row-major, as floats; empty for a buffer of integers.
  const std::vector<float>& buffer(int rank, int buffer) const;
  const std::vector<std::int64_t>& integers(int rank, int buffer) const;  // of i32, i64 or u8; else empty
  const std::vector<float>& output(int rank) const;                       // "y"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
