// The inner loops for avx512: registers of 16 floats, GEMM blocks of 4 rows by 64 columns: with few rows
// at once, rows of a that lie a power of two apart still fit in one set of the first-level cache.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "weft/kernel/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prfchw")
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 16
#define WEFT_BLOCK_ROWS 4
#define WEFT_PANEL_VECS 4
#define WEFT_VARIANT kAvx512Variant
#include "weft/kernel/variant.inc"
#pragma GCC pop_options
#endif
