#include "weft/kernel/quant/variant.h"

namespace weft {

std::vector<const QuantVariant*> quant_variants(Isa isa) {
#if defined(__x86_64__)
  const bool halves = __builtin_cpu_supports("f16c");
  if (isa == Isa::avx512 && halves && __builtin_cpu_supports("avx512vnni")) return {&kAvx512Quant, &kVnniQuant};
  if (isa == Isa::avx512 && halves) return {&kAvx512Quant};
  if (isa == Isa::avx2 && halves) return {&kAvx2Quant};
#elif defined(__aarch64__)
  if (isa == Isa::neon) return {&kNeonQuant};
#endif
  (void)isa;
  return {&kBaselineQuant};
}

const QuantVariant& quant_variant() {
  static const QuantVariant& best = *quant_variants(best_isa()).back();
  return best;
}

}  // namespace weft
