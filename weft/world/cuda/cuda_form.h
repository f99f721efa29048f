// A producer and its output space as a GPU makes them: bf16 operands, partial sums and outputs in bf16 or f32, tiles
// of 128 x 256 or 128 x 128; of a gemv of up to 16 rows, in bf16, all of them by 16 columns; of embedding bags f32, 64
// samples at a time. Pure values: no GPU is asked.
#pragma once

#include <optional>

#include "weft/plan/plan.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"

namespace weft {

struct CudaForm {
  Producer producer;
  Space space;
};

// Throws bad_input, with the remedy, for what a GPU cannot make. `space` may feed the producer (a gather). A gemm keeps
// its layout of w; a gemv has (n, k). `sums`, bf16 or f32: what outputs and partial sums are, and x where it is no
// operand of a product.
CudaForm cuda_form(Producer producer, Space space, Dtype sums = Dtype::bf16);

// The form of the gemv kernel, whose words say of themselves when they have come: for up to 16 rows of a product with w
// (n, k), or of rows as they are, that are kept or summed by one_shot, in bf16. None where that kernel cannot make
// them.
std::optional<CudaForm> few_rows_form(const Producer& producer, const Space& space, Dtype sums = Dtype::bf16);

// Whether a producer has that form, and whether a plan is for that kernel. (A narrow gemm has the same tiles.)
bool is_cuda_gemv(const Producer& producer);
bool is_cuda_gemv(const Plan& plan);

// A route that is known to be fast on GPUs where none was asked for: sums of products go round a ring, one source per
// tile; what is there already goes straight. docs/results/h200.md has the figures.
Space with_cuda_route(Space space, const Producer& producer);

}  // namespace weft
