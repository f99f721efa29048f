#include "weft/kernel/gemm/gemm_libxsmm.h"

#ifdef WEFT_HAVE_LIBXSMM
#include <libxsmm.h>

#include "weft/kernel/isa.h"
#endif

namespace weft {

#ifdef WEFT_HAVE_LIBXSMM

bool have_libxsmm() {
  static const bool able = [] {
    if (best_isa() == Isa::avx2) libxsmm_set_target_archid(LIBXSMM_X86_AVX2);  // the machine may have more
    return best_isa() != Isa::baseline && libxsmm_get_target_archid() >= LIBXSMM_X86_AVX2;
  }();
  return able;
}

JitGemm dispatch_libxsmm(const JitGemmShape& shape) {
  // A row-major matrix is its column-major transpose: c^T = b^T * a^T, so the operands change places.
  const auto lda = static_cast<libxsmm_blasint>(shape.ldb);
  const auto ldb = static_cast<libxsmm_blasint>(shape.lda);
  const auto ldc = static_cast<libxsmm_blasint>(shape.ldc);
  const float alpha = 1;
  const float beta = shape.accumulate ? 1 : 0;
  const int flags = LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  return libxsmm_smmdispatch(static_cast<libxsmm_blasint>(shape.cols), static_cast<libxsmm_blasint>(shape.rows),
                             static_cast<libxsmm_blasint>(shape.k), &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
}

#else

bool have_libxsmm() { return false; }

JitGemm dispatch_libxsmm(const JitGemmShape&) { return nullptr; }

#endif

}  // namespace weft
