// Which instruction set the kernels use on this machine. Decided at run time by the processor, never by the compiler's
// -march, so one binary serves every machine of its kind. Every variant can be asked for by name, which is how the
// tests compare them, and WEFT_ISA takes a narrower one for the whole process, which is how a machine shows what a
// lesser one would do.
#pragma once

#include <string>
#include <vector>

namespace weft {

enum class Isa { baseline, neon, avx2, avx512 };  // avx2 includes fma; avx512 is f, bw, dq and vl

std::string to_string(Isa isa);
Isa machine_isa();                  // the widest that this machine can run
std::vector<Isa> reachable_isas();  // all that this machine can run, baseline first

// What the kernels use: WEFT_ISA where it is set, else machine_isa(). The same answer for the life of the process;
// bad_input where the machine has no such instruction set.
Isa best_isa();
std::string isa();  // best_isa() in words: "avx512", "avx2", "neon" or "baseline"

// The reading of WEFT_ISA: null and "" ask for the last of `reachable`.
Isa choose_isa(const char* wanted, const std::vector<Isa>& reachable);

}  // namespace weft
