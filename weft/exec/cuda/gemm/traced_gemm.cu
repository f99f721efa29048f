// The kernels whose lanes leave their times (timeline.h): a file of their own, compiled beside the others.
#include "weft/exec/cuda/gemm/fused_gemm.cuh"

namespace weft {

FusedGemm traced_gemm_of(WeightLayout layout, bool finishes) {
  return gemm_with<Dtype::bf16, Trace::yes>(layout, finishes);
}

}  // namespace weft
