// The inner loops for avx2: registers of 8 floats, GEMM blocks of 6 rows by 16 columns.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "weft/kernel/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,prfchw")
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 8
#define WEFT_BLOCK_ROWS 6
#define WEFT_PANEL_VECS 2
#define WEFT_VARIANT kAvx2Variant
#include "weft/kernel/variant.inc"
#pragma GCC pop_options
#endif
