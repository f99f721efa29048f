#include "weft/kernel/isa.h"

#include <cstdlib>
#include <string_view>

#include "weft/base/error.h"

namespace weft {
namespace {

std::vector<Isa> detect() {
  std::vector<Isa> isas = {Isa::baseline};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2) isas.push_back(Isa::avx2);
  if (avx512) isas.push_back(Isa::avx512);
#elif defined(__aarch64__)
  isas.push_back(Isa::neon);  // part of every such processor
#endif
  return isas;
}

}  // namespace

std::string to_string(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::neon:
      return "neon";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<Isa> reachable_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Isa machine_isa() { return reachable_isas().back(); }

Isa choose_isa(const char* wanted, const std::vector<Isa>& reachable) {
  if (wanted == nullptr || *wanted == '\0') return reachable.back();
  std::string names;
  for (const Isa isa : reachable) {
    if (to_string(isa) == wanted) return isa;
    names += (names.empty() ? "" : " or ") + to_string(isa);
  }
  bad_input("WEFT_ISA is \"{}\", which is no instruction set of this machine; use {}, or leave it unset", wanted,
            names);
}

Isa best_isa() {
  static const Isa best = choose_isa(std::getenv("WEFT_ISA"), reachable_isas());
  return best;
}

std::string isa() { return to_string(best_isa()); }

}  // namespace weft
