// A model's weight in the words of matmul().
#pragma once

#include "weft/kernel/gemm/matmul.h"
#include "weft/llm/model/model.h"

namespace weft {

inline Linear linear_of(const Weight& weight, const float* bias) {
  return {.n = weight.rows,
          .k = weight.cols,
          .w = weight.data,
          .dtype = weight.dtype,
          .ldw = weight.ld,
          .bias = bias,
          .first = weight.first,
          .huge_pages = weight.huge_pages};
}

}  // namespace weft
