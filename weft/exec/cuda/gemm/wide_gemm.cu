// The kernels whose sums are kept and sent as f32, in tiles of 128 x 128.
#include "weft/exec/cuda/gemm/fused_gemm.cuh"

namespace weft {

FusedGemm wide_gemm_of(WeightLayout layout, bool finishes) {
  return gemm_with<Dtype::f32, Trace::no>(layout, finishes);
}

}  // namespace weft
