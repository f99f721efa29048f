// Makes the tiles of one producer on one rank: kernels dispatched while an op is compiled, pointers bound at each run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "weft/exec/bindings.h"
#include "weft/exec/cpu/packed_weights.h"
#include "weft/exec/cpu/rounded_input.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/kernel/gemm/gemv.h"
#include "weft/plan/program.h"

namespace weft {

class TileMaker {
 public:
  // Looks at the tiles of `program` to know their sizes.
  TileMaker(const Producer& producer, int index, const Program& program);

  std::size_t scratch_bytes() const { return wide_bytes_ + block_bytes_ + (gemm_ ? gemm_->scratch_bytes() : 0); }

  // Inputs may differ from those of the run before, and so may the rows of the output that count (-1: all); called
  // before any thread makes a tile. A gemv of few rows reads weights as they are, of more rows panels packed from them:
  // all its tiles of a run the same way.
  void begin(std::uint64_t run, std::int64_t rows) {
    if (packed_) packed_->begin(run);
    if (rounded_) rounded_->begin(run);
    by_gemv_ = producer_.kind == ProducerKind::gemv &&
               (rows < 0 ? producer_.m : std::min(rows, producer_.m)) <= most_gemv_rows();
  }

  // Whether make() takes a twin, and an addend: a copy takes only the latter.
  bool adds() const { return gemm_ != nullptr || producer_.kind == ProducerKind::gemv; }

  // target = the producer's output in `box`, from zero, then added to the target's addend if it has one. `rows` points
  // at the first row of x that the box needs where those come from a buffer; null: from the inputs. Rows of bf16 are
  // widened into the scratch memory first.
  void make(const Inputs& inputs, const Box& box, const void* rows, const GemmTarget& target, void* scratch) const;

 private:
  const float* rows_of_x(const Inputs& inputs, const Box& box, const void* rows, void* scratch) const;
  void make_from_blocks(const Inputs& inputs, const Box& box, const float* x, const GemmTarget& target,
                        std::byte* scratch) const;
  void make_by_gemv(std::int64_t m, std::int64_t n, const float* x, const void* w, std::int64_t rows_to_come,
                    const GemmTarget& target) const;

  Producer producer_;
  std::int64_t n_;  // columns on this rank
  bool by_gemv_ = false;
  std::size_t wide_bytes_ = 0;   // of the scratch memory: a tile's rows of x in f32
  std::size_t tile_bytes_ = 0;   // of weights in blocks: a tile before it is added to what the target has,
  std::size_t block_bytes_ = 0;  // and that with its rounded rows of x
  std::unique_ptr<GemmKernel> gemm_;
  std::unique_ptr<PackedWeights> packed_;
  std::unique_ptr<RoundedInput> rounded_;  // of weights in blocks
};

}  // namespace weft
