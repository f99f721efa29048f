// The inner loops for weights in blocks: neon, of every aarch64.
#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>

#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/variant.h"

// Around our text only: no inline function of a header may be compiled for a machine that may not be there.
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")  // a product is rounded before it is added, on every instruction set
#define WEFT_LANES 4
#define WEFT_NEON 1
#define WEFT_VARIANT kNeonQuant
#define WEFT_VARIANT_NAME "neon"
#include "weft/kernel/quant/variant.inc"
#pragma GCC pop_options
#endif
