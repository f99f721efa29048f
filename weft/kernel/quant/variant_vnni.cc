// The inner loops for weights in blocks: avx512 with VNNI, which multiplies unsigned by signed bytes and sums four.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 16
#define WEFT_VNNI 1
#define WEFT_VARIANT kVnniQuant
#define WEFT_VARIANT_NAME "avx512-vnni"
#include "weft/kernel/quant/variant.inc"
#pragma GCC pop_options
#endif
