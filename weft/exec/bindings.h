// What a run reads beside the plan's own memory: the caller's pointers and the sizes that hold for this run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/dtype.h"

namespace weft {

// One producer's inputs on one rank; unused ones stay null. Shapes as in plan/producer.h.
struct Inputs {
  const float* x = nullptr;
  const bf16* narrow_x = nullptr;  // instead of x where the producer's is bf16
  const void* written = nullptr;   // window: the rows, of which those for this host are in place (x is null)
  std::int64_t written_ld = 0;     // and how far apart they lie, in elements
  const void* w = nullptr;         // of the producer's weight dtype
  // Of weights in blocks: columns of a row's first block before its own, and columns from row to row, whole blocks
  // (kernel/quant/quant_rows.h). Ranks may differ.
  std::int64_t w_first = 0, w_ld = 0;
  const float* addend = nullptr;                 // (m, n), this rank's part of the sum before its tile is added
  const float* bias = nullptr;                   // (n)
  const float* residual = nullptr;               // the shape of the output y of this rank
  std::span<const float* const> tables;          // embedding_bag: one pointer per table
  std::span<const std::int64_t* const> indices;  // and its indices
  std::span<const std::int64_t* const> offsets;  // and its m + 1 offsets

  // x in the type that the producer takes.
  const void* rows(Dtype type) const { return type == Dtype::bf16 ? static_cast<const void*>(narrow_x) : x; }
};

// Fewer rows than the plan was built for. Rows beyond are skipped, but signal, so all ranks stay in step.
struct Counts {
  std::int64_t rows = -1;               // rows of the output, the same on every rank; -1: all
  std::span<const std::int64_t> peers;  // rows for (all_to_all) or from (gather) each position; empty: all
};

struct Bindings {
  std::vector<Inputs> producers;  // one for each producer of the plan
  // One for each buffer: inputs, and outputs that a run puts into the caller's memory (world/op.h); else null.
  std::vector<const void*> buffers;
};

}  // namespace weft
