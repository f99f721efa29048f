// The only door to libxsmm. Its headers and its column-major view stay in gemm_libxsmm.cc.
#pragma once

#include <cstdint>

namespace weft {

// c = b * a or c + b * a in row-major terms; takes (b, a, c). The shape is compiled in.
using JitGemm = void (*)(const float*, const float*, float*, ...);

struct JitGemmShape {
  std::int64_t rows, cols, k;
  std::int64_t lda, ldb, ldc;
  bool accumulate;
};

bool have_libxsmm();  // built in, and able to make code for this machine

// Makes the code or finds it; null where libxsmm cannot. Takes a lock: only while an op is compiled.
JitGemm dispatch_libxsmm(const JitGemmShape& shape);

}  // namespace weft
