// Which instruction set the kernels use on this machine. Decided at run time by cpuid, never by the
// compiler's -march, so one binary serves every x86-64 machine. Every variant can be asked for by name, which
// is how the tests compare them.
#pragma once

#include <string>
#include <vector>

namespace weft {

enum class Isa { baseline, avx2, avx512 };  // avx2 includes fma; avx512 is f, bw, dq and vl

std::string to_string(Isa isa);
Isa best_isa();                     // what the kernels use; the same answer for the life of the process
std::vector<Isa> reachable_isas();  // all that this machine can run, baseline first
std::string isa();                  // best_isa() in words: "avx512", "avx2" or "baseline"

}  // namespace weft
