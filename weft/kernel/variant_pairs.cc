// Products of bf16 pairs: avx512 with an instruction that adds two products of bf16 to a float, twice the rate of f32.
// The blocks are those of f32 (gemm/variant_gemm.inc): a pair, two neighbours in k, lies where a float would, so rows
// of bf16 weights need no widening when they are packed, and one multiply-add takes two k.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "weft/kernel/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prfchw")
#pragma GCC optimize("fp-contract=off")
#define WEFT_LANES 16
#define WEFT_BLOCK_ROWS 4
#define WEFT_PANEL_VECS 4
#define WEFT_PAIRS 1
#include "weft/kernel/variant.inc"

namespace weft {
namespace {

void round_to_bf16(std::int64_t count, const float* x, bf16* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256bh half = _mm512_cvtneps_pbh(load(x + i));
    std::memcpy(out + i, &half, sizeof half);
  }
  for (; i < count; ++i) out[i] = to_bf16(x[i]);
}

}  // namespace

const PairVariant kAvx512Pairs = {.gemm = {.lanes = kLanes,
                                           .block_rows = kBlockRows,
                                           .panel_cols = kPanelCols,
                                           .pack = pack,
                                           .pack_transposed = pack_transposed,
                                           .multiply = multiply,
                                           .widen = widen},
                                  .round = round_to_bf16};

}  // namespace weft
#pragma GCC pop_options
#endif
