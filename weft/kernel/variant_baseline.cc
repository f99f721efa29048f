// The inner loops for baseline: registers of 4 floats, GEMM blocks of 4 rows by 8 columns.

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cstring>

#include "weft/kernel/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 4
#define WEFT_BLOCK_ROWS 4
#define WEFT_PANEL_VECS 2
#define WEFT_VARIANT kBaselineVariant
#include "weft/kernel/variant.inc"
#pragma GCC pop_options
