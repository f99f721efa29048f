// Makes the tiles of one producer on one rank: kernels dispatched while an op is compiled, pointers bound at each run.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/exec/bindings.h"
#include "weft/exec/cpu/packed_weights.h"
#include "weft/kernel/gemm.h"
#include "weft/plan/program.h"

namespace weft {

class TileMaker {
 public:
  // Looks at the tiles of `program` to know their sizes.
  TileMaker(const Producer& producer, int index, const Program& program);

  std::size_t scratch_bytes() const { return gemm_ ? gemm_->scratch_bytes() : 0; }

  // Inputs may differ from those of the run before; called before any thread makes a tile.
  void begin(std::uint32_t run) {
    if (packed_) packed_->begin(run);
  }

  // Whether make() takes a twin, and an addend: a copy takes only the latter.
  bool adds() const { return gemm_ != nullptr || producer_.kind == ProducerKind::gemv; }

  // target = the producer's output in `box`, from zero, then added to the target's addend if it has one. `rows` points
  // at the first row of x that the box needs where those come from a buffer; null: from the inputs.
  void make(const Inputs& inputs, const Box& box, const float* rows, const GemmTarget& target, void* scratch) const;

 private:
  Producer producer_;
  std::int64_t n_;  // columns on this rank
  std::unique_ptr<GemmKernel> gemm_;
  std::unique_ptr<PackedWeights> packed_;
};

}  // namespace weft
