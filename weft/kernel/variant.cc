#include "weft/kernel/variant.h"

namespace weft {

const Variant& variant(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return kAvx512Variant;
  if (isa == Isa::avx2) return kAvx2Variant;
#elif defined(__aarch64__)
  if (isa == Isa::neon) return kNeonVariant;
#endif
  (void)isa;
  return kBaselineVariant;
}

const PairVariant* pair_variant(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512 && __builtin_cpu_supports("avx512bf16")) return &kAvx512Pairs;
#endif
  (void)isa;
  return nullptr;
}

const Variant& variant() {
  static const Variant& best = variant(best_isa());
  return best;
}

}  // namespace weft
