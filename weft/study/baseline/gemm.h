// What the modules weft_dnnl.so and weft_blas.so give: a library's whole product of a shape. A module is loaded when a
// benchmark asks for it, so that the weft program itself depends on neither oneDNN nor OpenBLAS.
#pragma once

#include <cstdint>

namespace weft::baseline {

struct GemmSize {
  std::int64_t m = 0, n = 0, k = 0;
  int threads = 1;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  // Puts weights (k, n) into the order that the matmul likes best, once for every pointer that run will see. Then, on
  // the first call, tries both of oneDNN's ways with this x (m, k). OpenBLAS takes weights as they are.
  virtual void prepare(const float* x, const float* w) = 0;
  virtual void run(const float* x, const float* w, float* y) = 0;  // y (m, n) = x * w, all row-major
  virtual const char* name() const = 0;                            // "dnnl_sgemm", "matmul" or "cblas_sgemm"
};

// Null where the library refuses; `error` of 200 characters then says why.
using MakeGemm = Gemm* (*)(const GemmSize& size, char* error);
inline constexpr const char* kMakeGemm = "weft_make_gemm";

}  // namespace weft::baseline
