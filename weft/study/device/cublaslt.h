// cuBLASLt, the GEMM to be measured against, loaded where it is installed: its headers are not needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/exec/cuda/device.h"
#include "weft/plan/producer.h"

namespace weft {

// y (m, n) = x (m, k) * w in bf16, summed in f32; all row-major.
class CublasLtGemm {
 public:
  static bool is_installed();
  CublasLtGemm(std::int64_t m, std::int64_t n, std::int64_t k, WeightLayout layout);
  ~CublasLtGemm();

  // Times all that the library proposes, up to 16, and keeps the fastest. Returns how many ran.
  int tune(const void* x, const void* w, void* y);
  void run(const void* x, const void* w, void* y, void* queue = device_queue());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
