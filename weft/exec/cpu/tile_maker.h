// Makes the tiles of one producer on one rank: kernels dispatched while an op is compiled, pointers bound at each run.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/exec/bindings.h"
#include "weft/kernel/gemm.h"
#include "weft/plan/program.h"

namespace weft {

class TileMaker {
 public:
  // Looks at the tiles of `program` to know their sizes.
  TileMaker(const Producer& producer, int index, const Program& program);

  std::size_t scratch_bytes() const { return gemm_ ? gemm_->scratch_bytes() : 0; }

  // tile = the producer's output in `box`, from zero. `rows` points at the first row of x that the box needs where
  // those come from a buffer; null: from the inputs.
  void make(const Inputs& inputs, const Box& box, const float* rows, float* tile, std::int64_t ld, void* scratch) const;

 private:
  Producer producer_;
  std::int64_t n_;  // columns on this rank
  std::unique_ptr<GemmKernel> gemm_;
};

}  // namespace weft
