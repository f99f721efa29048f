// The module weft_blas.so: OpenBLAS's product of one shape, on matrices as they lie.
#include <cblas.h>

#include "weft/study/baseline/gemm.h"

namespace weft::baseline {
namespace {

class BlasGemm : public Gemm {
 public:
  explicit BlasGemm(const GemmSize& size) : size_(size) { openblas_set_num_threads(size.threads); }

  void prepare(const float*, const float*) override {}

  void run(const float* x, const float* w, float* y) override {
    const auto m = static_cast<blasint>(size_.m), n = static_cast<blasint>(size_.n), k = static_cast<blasint>(size_.k);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, x, k, w, n, 0.0f, y, n);
  }

  const char* name() const override { return "cblas_sgemm"; }

 private:
  GemmSize size_;
};

}  // namespace
}  // namespace weft::baseline

extern "C" weft::baseline::Gemm* weft_make_gemm(const weft::baseline::GemmSize& size, char*) {
  return new weft::baseline::BlasGemm(size);
}
