// The inner loops for neon: registers of 4 floats, GEMM blocks of 6 rows by 16 columns: 24 of 32 registers.
#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>

#include "weft/kernel/variant.h"

#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 4
#define WEFT_FUSED 1
#define WEFT_BLOCK_ROWS 6
#define WEFT_PANEL_VECS 4
#define WEFT_VARIANT kNeonVariant
#include "weft/kernel/variant.inc"
#pragma GCC pop_options
#endif
