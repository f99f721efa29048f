// The inner loops for weights in blocks: avx2, with f16c.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 8
#define WEFT_VARIANT kAvx2Quant
#define WEFT_VARIANT_NAME "avx2"
#include "weft/kernel/quant/variant.inc"
#pragma GCC pop_options
#endif
