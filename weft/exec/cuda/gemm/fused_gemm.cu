#include "weft/exec/cuda/gemm/fused_gemm.cuh"

namespace weft {

FusedGemm fused_gemm_of(WeightLayout layout, bool finishes) {
  return gemm_with<Dtype::bf16, Trace::no>(layout, finishes);
}

}  // namespace weft
